"""What the official conformance suite starts as the client: has the test start it, and is its exit code.

`conformance_relay.py SOCKET ADDRESS`. It imports next to nothing: the suite starts dozens of these at once, and the
test has them take turns.
"""

import array
import json
import os
import socket
import sys

if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX) as test:
        test.connect(sys.argv[1])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
        test.sendmsg([b"\n"], rights)
        with test.makefile("rw") as lines:
            lines.write(json.dumps({"address": sys.argv[2], "environment": dict(os.environ)}) + "\n")
            lines.flush()
            sys.exit(int(lines.readline() or "1"))
