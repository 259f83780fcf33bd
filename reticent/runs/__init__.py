"""From a table to a private model in a folder, for somebody who writes no JAX.

A run goes through these rooms, in this order:

request                     what somebody asks for
lifecycle                   the whole way, for models and generators: open, price, pay, learn, write, resume
fit                         what a run does that trains a model: `fit` and `resume`
source                      what the request is about: the rows, and what is public about them
users                       rows of users: how many of each are used, and whose each row is
declared                    what the request declares beside its domain file: classes, task, bounds
holder_warnings             what the holder of a table should look at before anything is paid
first_cells                 the first cells of a table, as they are, for these warnings
problem                     what is public about a learning problem: all that a default may depend on
model_choice                which model `auto` stands for, by public rules
pricing                     the recipe that spends what the request allows, before a record is seen
feature_source              which public model makes features of which column, and of which public records
public_features             that model: asked once about each record, kept, whitened
payment                     the budget divided, and charged to a ledger once
largest_affordable_epsilon  which epsilon a ledger still covers, for a run that was refused
open_run                    the folder and the record at work, and what to say when a run stops
public_domain               what is public about the table: declared, or found privately
arrays                      the rows to train on, and those held out
unclipped                   held-out numbers as they are in the table, to score against
spill                       rows that are too many for the memory
row_fingerprint             a keyed fingerprint of the rows, to recognise them later
learners                    which models there are, and how rows become their inputs
image_learners              those for images: networks, and features that nobody's records made
public_start                public weights that a run starts from, and what learns of them
kept_inputs                 features by public weights, in the private part of a run
texts                       texts that are continued: their windows, with a speaker as the unit
work                        what a model or a generator is made with, and what that leaves behind
method                      what a method is to a run: terms, a recipe, inputs, what is trained
methods/                    the ways to train: one row per method in `table`
scoring                     how good the result is on held-out rows
held_out_scores             what a record keeps of that

Before a run, without one, and when it is resumed:

dry_run                     what a run would cost, with nothing charged or written
forecast                    what to expect of an additive model, from other tables
resumable                   whether a stopped run may be resumed: the same command, version and data

What is left on the disk, and what is done with it:

record                      `RunRecord`: what run.json holds, with its reader and its writer
json_values                 values read from JSON, each checked
table_format                how the table is written, for the synthetic one that looks like it
consistency                 whether what a record says fits together
folder                      the files of a run, written whole and read back without trusting them
origin                      whether a folder is this user's own: only then are its data and ledger opened
private_part                which rows were held out: the part of a folder that may not leave
predict                     new rows through a finished run
predict_features            new texts and images, by the same public model
continuation                text from a run that continues text
shapes                      the curves of an additive model, by the names of columns
weights                     what a linear model looks at, by the names of features
export                      what of a run may be published, in a folder of its own
portable                    the same for other programs, as arrays and rules
onnx_graph                  a portable model as an ONNX graph
released_model              a portable model as scikit-learn knows models; the file is copied
federated_tables            what was measured on the rows of a federated run, for its report
reopen                      a finished run beside the rows it was made from
attacks/                    attacks on a finished run, with its own recipe and rows
sweep                       theory against practice: many models, accounting methods and epsilons
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.runs.fit import fit as fit
    from reticent.runs.fit import resume as resume
    from reticent.runs.lifecycle import FinishedRun as FinishedRun
    from reticent.runs.method import Inputs as Inputs
    from reticent.runs.method import Method as Method
    from reticent.runs.method import Terms as Terms
    from reticent.runs.method import Trained as Trained
    from reticent.runs.method import require_enough as require_enough
    from reticent.runs.methods.table import METHODS as METHODS
    from reticent.runs.predict import Predictor as Predictor
    from reticent.runs.record import RunRecord as RunRecord
    from reticent.runs.request import Request as Request
    from reticent.runs.shapes import ColumnShape as ColumnShape
    from reticent.runs.shapes import shapes as shapes

open_page(__name__)
