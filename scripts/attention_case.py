#!/usr/bin/env python3
"""Writes q, k, v and do of random numbers into a safetensors file, as
`ringmax attention --in` reads it: scripts/attention_case.py FILE"""

import array
import json
import random
import struct
import sys

SHAPE = [1, 1024, 4, 32]  # batch, tokens, heads, size of a head


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    count = 1
    for size in SHAPE:
        count *= size
    numbers = random.Random(0)
    header, data = {}, b""
    for name in ("q", "k", "v", "do"):
        values = array.array("f", (numbers.gauss(0, 1) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": SHAPE,
                        "data_offsets": [len(data), len(data) + 4 * count]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    with open(sys.argv[1], "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    main()
