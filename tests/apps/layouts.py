"""How the rows of a filter's input may lie."""

import numpy as np

LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: np.asfortranarray(x),
    "apart": lambda x: np.repeat(np.repeat(x, 2, -1), 3, 0)[::3, ::2],
    "backward": lambda x: x[..., ::-1].copy()[..., ::-1],
    "one for all": lambda x: np.broadcast_to(x[:1], x.shape),
    "planes": lambda x: np.moveaxis(np.stack([x, -x]), 0, 1),
}
