"""What the diagnosis says of recordings with faults that recorders are known to have.

``python -m tests.diagnosis.recorder_faults`` breaks each real trace in each way, compares what is
said with what is said of the sound recording, and writes the table of ``docs/recorder-faults.md``:

- `recording`: a Kineto trace in memory, its times in whole ns;
- `faults`: what can be wrong with it, each as a function;
- `effects`: what a fault adds to a diagnosis, takes from it, and whether anything tells.
"""
