"""The sandbox's endpoint without stacks: `python -m tests.sandbox.bare_server FOLDER` prints its variables."""

import json
import os
import signal
import socket
import sys
from pathlib import Path

from sandbox import processes, server, surroundings

folder = Path(sys.argv[1])
listener = socket.create_server(("127.0.0.1", 0), backlog=64)
os.environ["MOTO_PORT"] = str(listener.getsockname()[1])
processes.install()
server.serve(listener, folder)
print(json.dumps({**surroundings.aws_environment(), "KEEPER_PID": str(processes.current().pid)}), flush=True)
signal.pause()
