"""The least that a trio server of lines can do: echo_server.py SOCKET sends each line back."""

import sys

import trio


async def serve(stream: trio.SocketStream) -> None:
    rest = b""
    async for chunk in stream:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            await stream.send_all(line + b"\n")


async def main(path: str) -> None:
    listening = trio.socket.socket(trio.socket.AF_UNIX)
    await listening.bind(path)
    listening.listen()
    print("ready", flush=True)
    await trio.serve_listeners(serve, [trio.SocketListener(listening)])


trio.run(main, sys.argv[1])
