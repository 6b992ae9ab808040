"""The playground: one page in which a run is simulated while the reader looks and changes it.

The page is made from `web/play` by `make play`, with the engine's WebAssembly module in it. This room puts an
experiment into it, and writes or serves it.
"""

from dumbbell.play.play_page import NOT_SHOWN, make_fragment, make_page
from dumbbell.play.server import serve

__all__ = ["NOT_SHOWN", "make_fragment", "make_page", "serve"]
