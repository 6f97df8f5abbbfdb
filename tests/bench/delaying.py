"""`python delaying.py HOST PORT SECONDS`: standard input and output joined to a TCP port, each byte delayed."""

import os
import queue
import socket
import sys
import threading
import time


def carry(read, write, delay_s):
    """Read until there is no more; write each piece `delay_s` after it was read."""
    waiting = queue.Queue()

    def reader():
        while data := read():
            waiting.put((time.monotonic() + delay_s, data))
        waiting.put((time.monotonic() + delay_s, b""))

    threading.Thread(target=reader, daemon=True).start()
    while True:
        due_s, data = waiting.get()
        time.sleep(max(0.0, due_s - time.monotonic()))
        if not data:
            return
        write(data)


def main(host, port, delay_s):
    """Ends with either side."""
    far = socket.create_connection((host, int(port)))
    far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ways = [
        (lambda: os.read(0, 1 << 16), far.sendall),
        (lambda: far.recv(1 << 16), lambda data: os.write(1, data)),
    ]
    threads = [threading.Thread(target=carry, args=(*way, float(delay_s)), daemon=True) for way in ways]
    for thread in threads:
        thread.start()
    while all(thread.is_alive() for thread in threads):
        time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
