"""Flower in one process: the simulator's model to the bit, and clients and messages that do not belong.

These tests need the package flwr, whose pins do not go with ours: `make flower` runs them where it is.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import reticent as rt
from reticent.core.errors import DataError, Unavailable
from reticent.federated.plan import FederatedPlan
from reticent.training.local_training import LocalTraining

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of flwr itself, when it is imported
    pytest.mark.filterwarnings("ignore:Unreleased"),  # some of the clients have no rows
]
needs_flower = pytest.mark.skipif(
    importlib.util.find_spec("flwr") is None, reason="flwr is not installed; make flower has it"
)

CLIENTS, ROWS, WIDTH = 12, 4, 300
NAMES = [str(number) for number in range(CLIENTS)]
USERS = np.concatenate([np.full(client % ROWS, client) for client in range(CLIENTS)])  # some have no row
X = np.random.default_rng(0).normal(size=(len(USERS), WIDTH)).astype(np.float32)
LOCAL = LocalTraining(learning_rate=0.5, epochs=2, batch_size=2)


def loss(params, row):
    return 0.5 * jnp.sum((jnp.tanh(params["w"] * row["x"]) - row["x"]) ** 2)


def start():
    return {"w": jnp.zeros(WIDTH)}


def plan(**changes) -> FederatedPlan:
    given: dict[str, Any] = {"clients_per_round": 5, "rounds": 3, "max_norm": 0.25, "rows_per_client": ROWS}
    given |= {"epsilon": 4.0, "delta": 1e-3, "clients": CLIENTS, "local": LOCAL}
    return FederatedPlan.for_budget(**{**given, **changes})


def quiet(rounds: int = 1) -> FederatedPlan:
    return FederatedPlan.without_privacy(
        clients=CLIENTS, rounds=rounds, max_norm=0.25, rows_per_client=ROWS, local=LOCAL, sampling="full"
    )


def app_for(plan: FederatedPlan) -> Any:
    def own(context: Any) -> dict[str, np.ndarray]:
        return {"x": X[int(context.node_config["client"]) == USERS]}

    return rt.federated.flower.client_app(loss, start(), plan, rows=own, compiled=None)


def strategy_for(plan: FederatedPlan, **more: Any) -> Any:
    given = {"clients": NAMES, "keys": rt.Keys.seeded(3), "timeout": 5.0, **more}
    return rt.federated.flower.PrivateStrategy(plan, start(), **given)


def test_without_flower_its_page_says_what_to_install(monkeypatch) -> None:
    for name in [name for name in sys.modules if name.startswith("reticent.federated.flower.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flwr", None)
    with pytest.raises(Unavailable, match=r"pip install 'reticent\[flower\]'"):
        importlib.import_module("reticent.federated.flower.library")


@needs_flower
def test_flower_gives_the_model_of_the_simulator() -> None:
    present = np.isin(np.arange(CLIENTS), USERS)
    names = [name for name, is_there in zip(NAMES, present, strict=True) if is_there]
    asked = plan(clients=CLIENTS)
    simulated = rt.federated.train(
        loss, start(), rt.Dataset({"x": X}, users=USERS), asked, keys=rt.Keys.seeded(3)
    )
    strategy = strategy_for(asked, clients=names)
    done = strategy.start(rt.federated.flower.InProcessGrid(app_for(asked), names))
    np.testing.assert_allclose(done.params["w"], simulated.params["w"], atol=2e-6)
    assert not strategy.left_out
    assert done.is_complete
    assert done.guarantee.epsilon == simulated.guarantee.epsilon <= 4.0


@needs_flower
def test_nodes_and_messages_that_do_not_belong_are_left_out_and_said_so() -> None:
    from flwr.app import ConfigRecord, Error, Message, RecordDict  # type: ignore[import-not-found]

    from reticent.federated.flower.messages import to_record

    def sent(message: Any, tree: Any, number: int = 0) -> Any:
        said = {"reticent.update": to_record(tree), "reticent.round": ConfigRecord({"round": number})}
        return Message(RecordDict(said), reply_to=message)

    class Hostile(rt.federated.flower.InProcessGrid):
        """Some nodes lie, fail, are silent or answer twice."""

        def answer(self, message: Any, context: Any) -> Any:
            is_training, who = (
                message.metadata.message_type == "train.reticent",
                context.node_config["client"],
            )
            if who == "4" and not is_training:
                context.node_config["client"] = "3"  # says that it is somebody else
                return super().answer(message, context)
            if not is_training:
                return super().answer(message, context)
            good = np.full(WIDTH, 0.001, np.float32)
            match who:
                case "5":
                    return Message(Error(0, "a client that\nfails " + 1000 * "x"), reply_to=message)
                case "6":
                    return sent(message, {"w": good[:7]})
                case "7":
                    return sent(message, {"v": good})
                case "8":
                    return sent(message, {"w": good}, number=41)
                case "9":
                    return None
                case "10":
                    return sent(message, {"w": np.full(WIDTH, np.nan, np.float32)})
                case "11":
                    return Message(RecordDict(), reply_to=message)
            return sent(message, {"w": good})

        def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Any]:
            replies = super().send_and_receive(messages, timeout=timeout)
            return [*replies, *replies[:1]] if replies and replies[0].has_content() else replies

    strategy = strategy_for(quiet())
    done = strategy.start(Hostile(app_for(quiet()), [*NAMES, "a stranger"]))
    # Clients 0, 1, 2 and 3 send the same; 4 has no voice beside 3, and nobody else counts.
    np.testing.assert_allclose(np.asarray(done.params["w"]) * CLIENTS, 4 * 0.001, rtol=1e-3)
    said = "\n".join(strategy.left_out)
    for sentence in (
        "both say they are '3': one user has one voice",
        "'a stranger', who is not registered",
        "Client '5' failed in round 0: ",
        "Client '6' sent something else for parameter 'w'",
        "Client '7' sent another model: parameter",
        "is for round 41, which is over",
        "Client '11' sent another model",
        "sent a second update in round 0",
    ):
        assert sentence in said
    assert all(len(sentence) < 400 and "\n" not in sentence for sentence in strategy.left_out)
    assert done.is_complete


@needs_flower
def test_a_client_follows_no_other_plan_and_a_server_waits_for_nobody_for_ever() -> None:
    strategy = strategy_for(quiet())
    strategy.start(rt.federated.flower.InProcessGrid(app_for(quiet(2)), NAMES))
    assert "The server follows another plan than this client was given" in strategy.left_out[0]
    strategy = strategy_for(quiet(), timeout=0.1, wait_for=3)
    with pytest.raises(Unavailable, match="2 registered clients are connected"):
        strategy.start(rt.federated.flower.InProcessGrid(app_for(quiet()), NAMES[:2]))
    with pytest.raises(DataError, match="from its plan"):
        strategy.start(None, num_rounds=1000)


@needs_flower
def test_an_array_that_claims_another_size_takes_no_memory() -> None:
    from flwr.app import Array, ArrayRecord  # type: ignore[import-not-found]

    from reticent.federated.flower.messages import from_record, to_record

    like = {"w": np.zeros(3, np.float32)}
    good = to_record({"w": np.ones(3, np.float32)})["0000 w"].data
    for data in (
        good.replace(b"(3,)", b"(900000000000,)"),
        good.replace(b"<f4", b"|O "),
        good[:-1],
        b"",
        b"\x93NUMPY\x01\x00",
        good + bytes(5000),
        good.replace(b"(3,)", b"((((("),
    ):
        record = ArrayRecord({"0000 w": Array("float32", (3,), "numpy.ndarray", data)})
        with pytest.raises(DataError, match="sent something else for parameter 'w'"):
            from_record(record, like, "Client 'x'")


@needs_flower
def test_a_folder_that_others_may_write_to_is_not_used_for_programs(tmp_path) -> None:
    from reticent.federated.flower.client import _keep_compiled

    tmp_path.chmod(0o777)
    with pytest.raises(ValueError, match="Others may"):
        _keep_compiled(tmp_path)


# A server that is not trusted with updates


def secure_plan(**changes: Any) -> Any:
    given = {"clients": 6, "least": 4, "noise_multiplier": 1e-3, "max_norm": 0.25}
    shares = rt.federated.NoiseShares(**{**given, **changes})
    return rt.federated.SecurePlan(shares=shares, rounds=2, rows_per_client=ROWS, local=LOCAL)


def secure_parts(plan: Any, turns: Path, *, bad: str = "", **more: Any) -> tuple[Any, Any]:
    def own(context: Any) -> dict[str, np.ndarray]:
        if context.node_config["client"] == bad:
            raise ValueError("row 7 of Ann Smith, aged 54")
        return {"x": np.full((2, WIDTH), 1.0, np.float32)}

    flower = rt.federated.flower
    app = flower.secure_client_app(loss, start(), plan, rows=own, compiled=None, turns=turns)
    return app, flower.SecureStrategy(plan, start(), delta=1e-3, clients=NAMES[:6], timeout=5.0, **more)


@needs_flower
def test_secure_rounds_give_the_sum_of_those_that_finish_and_say_who_is_trusted(tmp_path: Path) -> None:
    class Vanishing(rt.federated.flower.InProcessGrid):
        """Two of six send shares and no numbers; what the server receives is kept."""

        seen: ClassVar[list[np.ndarray]] = []

        def answer(self, message: Any, context: Any) -> Any:
            is_masked = message.metadata.message_type.endswith("masked")
            if is_masked and context.node_config["client"] in ("1", "4"):
                return None
            reply = super().answer(message, context)
            if is_masked:
                self.seen.append(reply.content.array_records["reticent.numbers"]["numbers"].numpy())
            return reply

    app, strategy = secure_parts(secure_plan(), tmp_path, bad="2")
    done = strategy.start(Vanishing(app, NAMES[:6]))
    # Each of three clients moves every number by the norm / sqrt(width) in each round; six is the divisor.
    # The rows of a fourth cannot be read: it sends zeros, and says nothing about them.
    np.testing.assert_allclose(done.params["w"], 2 * 3 * 0.25 / np.sqrt(WIDTH) / 6, rtol=0.05)
    assert "Ann" not in "".join(strategy.left_out)
    assert len(Vanishing.seen) == 8
    assert all(np.std(numbers / 2**32) == pytest.approx(12**-0.5, abs=0.06) for numbers in Vanishing.seen)
    assert "it is not trusted with a single update" in "".join(done.guarantee.assumptions)
    assert done.guarantee.unit == "user"
    # The server starts another run: clients took part in as many rounds as the plan has, in whichever run.
    _, again = secure_parts(secure_plan(), tmp_path)
    with pytest.raises(Unavailable, match="All 2 rounds were lost"):
        again.start(rt.federated.flower.InProcessGrid(app, NAMES[:6]))
    assert "took part in 2 rounds, and the plan has no more" in "".join(again.left_out)


@needs_flower
def test_a_server_of_secure_rounds_that_is_killed_goes_on_with_the_next_one_and_is_charged_once(
    tmp_path: Path,
) -> None:
    class Account:
        account = "an account"
        charged = 0

        def charge(self, event: Any, **terms: Any) -> None:
            self.charged += 1

    class Killed(rt.federated.flower.InProcessGrid):
        """The server dies when clients of the first round have sent their numbers."""

        def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Any]:
            replies = super().send_and_receive(messages, timeout=timeout)
            if replies and replies[0].has_content() and "reticent.numbers" in replies[0].content:
                raise KeyboardInterrupt
            return replies

    account, folder = Account(), tmp_path / "server"
    app, strategy = secure_parts(secure_plan(), tmp_path, budget=account, folder=folder)
    with pytest.raises(KeyboardInterrupt):
        strategy.start(Killed(app, NAMES[:6]))
    assert not np.any(strategy.params["w"])
    _, strategy = secure_parts(secure_plan(), tmp_path, budget=account, folder=folder)
    done = strategy.start(rt.federated.flower.InProcessGrid(app, NAMES[:6]))
    np.testing.assert_allclose(done.params["w"], 0.25 / np.sqrt(WIDTH), rtol=0.05)  # of one round
    assert not strategy.left_out
    _, strategy = secure_parts(secure_plan(), tmp_path, budget=account, folder=folder)
    np.testing.assert_array_equal(strategy.params["w"], done.params["w"])
    assert account.charged == 1


@needs_flower
def test_secure_rounds_with_too_few_clients_or_another_plan_are_lost_and_tell_nothing(tmp_path: Path) -> None:
    app, strategy = secure_parts(secure_plan(), tmp_path)
    with pytest.raises(Unavailable, match="fewer than 4 clients finished"):
        strategy.start(rt.federated.flower.InProcessGrid(app, NAMES[:3]))
    _, other = secure_parts(secure_plan(noise_multiplier=2.0), tmp_path)
    with pytest.raises(Unavailable):
        other.start(rt.federated.flower.InProcessGrid(app, NAMES[:6]))
    assert "follows another plan" in other.left_out[0]
    with pytest.raises(ValueError, match="made for 6 clients, and 3 are registered"):
        rt.federated.flower.SecureStrategy(secure_plan(), start(), delta=1e-3, clients=NAMES[:3])
