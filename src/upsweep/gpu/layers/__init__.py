"""Layers of recurrent models on a GPU. See `upsweep.layer_protocol.Layers`."""

from upsweep.gpu.layers.gated_layers import gated, gated_back
from upsweep.gpu.layers.selective_scans import CHUNK, selective, selective_back

__all__ = ["CHUNK", "gated", "gated_back", "selective", "selective_back"]
