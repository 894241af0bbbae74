// Memory for a result.
#pragma once
#include "prelude.cuh"

// For so many items.
struct Room { i64 size; KEY* values; i64* places; i64* lengths; };
