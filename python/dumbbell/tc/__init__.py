"""Lines of tc(8) as experiment files: `dumbbell tc`.

`lexer.py` cuts text into words with their places, `quantities.py` knows tc's units. `devices.py` reads commands into
devices with trees of queue disciplines; `sqm.py` and `libreqos.py` make the same commands from configurations.
`options.py` and `qdiscs.py` are tables of the words of queue disciplines; `netem.py`, `policer.py` and `shapers.py`
read what is not a queue alone. `hop.py` makes hops of trees, `setup.py` finds their directions, and `write.py` writes
the file.
"""
