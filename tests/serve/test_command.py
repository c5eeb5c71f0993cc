"""The command serves a folder, and ends when what it has accepted is answered."""

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
import threading

import pytest

import rushlight as rl
from rushlight.serve import pack
from tests.serve.served import CODE

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


def predict(port, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", "/predictions/slow", json.dumps(body))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def test_a_signal_ends_the_command_after_its_last_answer(tmp_path):
    rl.save({}, tmp_path / "weights.pth")
    pack(
        tmp_path / "slow.rlm", "slow", tmp_path / "weights.pth", kind="eager",
        files=[CODE], factory="slow.py:make", handler="slow.py:Slow",
    )  # fmt: skip
    command = [sys.executable, "-m", "rushlight.serve", str(tmp_path), "--allow-code"]
    command += ["--models", "slow.rlm", "--port", "0", "--management-port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stderr:
                found = re.search(r"predictions on port (\d+)", line)
                if found:
                    break
            port, answers = int(found[1]), []
            asked = threading.Thread(
                target=lambda: answers.append(
                    predict(port, {"seconds": 1.0, "number": 7})
                )
            )
            asked.start()
            assert predict(port, {"number": 1})[0] == 200
            process.send_signal(signal.SIGTERM)
            asked.join()
            assert process.wait(30) == 0
        finally:
            process.kill()
    ((status, answer),) = answers
    assert status == 200 and answer["number"] == 7
