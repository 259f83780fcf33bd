"""Options of a program that is compiled as for a user, whatever the rest of the suite asks for."""

from __future__ import annotations

AS_SHIPPED: dict[str, bool | int] = {
    "xla_backend_optimization_level": 3,
    "xla_cpu_use_fusion_emitters": True,
    "xla_llvm_disable_expensive_passes": False,
}
