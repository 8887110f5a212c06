#!/usr/bin/env python3
"""ACP agent stub over stdio, with switchable bad manners.   (rows D07, D11-D16)

Speaks: initialize, session/new, session/prompt, session/cancel, and the
agent's side of session/request_permission.  With no switch it is polite.

Output manners
  --noise N          N junk lines before the first answer and one after every
                     frame: plain text, ANSI escapes, a bare JSON string, [],
                     null, an object that is no JSON-RPC, a blank line
  --big-line MIB     one session/update line with MIB MiB of text (max 16)
  --stderr-flood KIB KIB of stderr before the answer to initialize (max 8192)
  --bad-utf8         an update whose text holds the raw bytes C3 28 FF
  --split-utf8       an update flushed in pieces that cut characters apart
Turn manners
  --chunks N --chunk-ms MS   N ordinary updates (default 3, 20 ms apart)
  --ask-permission   ask session/request_permission, go on after the answer
  --unknown-request  send request `vendor/not_a_method` and the notification
                     `_vendor/hint`; end the turn only after the request is
                     answered (an error answer is fine)
  --die exit|kill    die after the first chunk: exit 7, or SIGKILL to itself
  --hold             never end the turn before session/cancel
Life manners
  --ignore-term      TERM, INT and HUP do nothing
  --linger           stay alive after EOF on stdin
Book-keeping
  --log FILE         one JSON line per received frame, signal and decision
  --tag T --ttl S    survivor tag; hard end after S s (default 45, max 58)
"""
import argparse, json, os, queue, signal, sys, threading, time

ap = argparse.ArgumentParser()
ap.add_argument("--tag", default="untagged")
ap.add_argument("--ttl", type=float, default=45)
ap.add_argument("--log", default=os.devnull)
ap.add_argument("--noise", type=int, default=0)
ap.add_argument("--big-line", type=float, default=0)
ap.add_argument("--stderr-flood", type=int, default=0)
ap.add_argument("--bad-utf8", action="store_true")
ap.add_argument("--split-utf8", action="store_true")
ap.add_argument("--chunks", type=int, default=3)
ap.add_argument("--chunk-ms", type=float, default=20)
ap.add_argument("--ask-permission", action="store_true")
ap.add_argument("--unknown-request", action="store_true")
ap.add_argument("--die", choices=["exit", "kill"])
ap.add_argument("--hold", action="store_true")
ap.add_argument("--ignore-term", action="store_true")
ap.add_argument("--linger", action="store_true")
a = ap.parse_args()
os.environ["FIXTURE_TAG"] = a.tag
end_at = time.monotonic() + min(a.ttl, 58.0)

LOG = os.open(a.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def note(**kw):
    kw["t"] = round(time.time(), 3)
    kw["pid"] = os.getpid()
    os.write(LOG, (json.dumps(kw) + "\n").encode())


def on_alarm(*_):
    note(what="ttl")
    os._exit(99)


signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, max(0.1, end_at - time.monotonic()))
for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    if a.ignore_term:
        signal.signal(s, lambda n, f: note(what="signal ignored", signum=n))
    else:
        signal.signal(s, lambda n, f: (note(what="signal", signum=n), os._exit(128 + n)))

wlock = threading.Lock()
JUNK = [b"loading cached settings ...", b"\x1b[2K\x1b[33mwarn\x1b[0m update available",
        b'"a bare string"', b"[]", b"null", b'{"level":"info","msg":"not rpc"}', b"", b"   \t"]
junk_i = 0


def raw(data):
    with wlock:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view):]


def junk(n):
    global junk_i
    for _ in range(n):
        raw(JUNK[junk_i % len(JUNK)] + b"\n")
        junk_i += 1


def send(obj):
    raw(json.dumps(obj, ensure_ascii=False).encode() + b"\n")
    if a.noise:
        junk(1)


def update(sid, text):
    send({"jsonrpc": "2.0", "method": "session/update",
          "params": {"sessionId": sid, "update": {"sessionUpdate": "agent_message_chunk",
                     "content": {"type": "text", "text": text}}}})


answers = {}          # our own request id -> queue
cancelled = {}        # session id -> Event


def ask(rid, method, params):
    q = answers[rid] = queue.Queue()   # kept here: a quick answer takes it out of the table
    send({"jsonrpc": "2.0", "id": rid, "method": method, "params": params})
    return q.get()


def turn(rid, sid):
    stop = cancelled[sid]
    done = lambda why: (note(what="turn end", stop=why),
                        send({"jsonrpc": "2.0", "id": rid, "result": {"stopReason": why}}))
    for i in range(max(1, a.chunks)):
        if stop.is_set():
            return done("cancelled")
        update(sid, f"chunk {i} ")
        if i == 0 and a.die == "exit":
            note(what="die exit")
            os._exit(7)
        if i == 0 and a.die == "kill":
            note(what="die kill")
            os.kill(os.getpid(), signal.SIGKILL)
        stop.wait(a.chunk_ms / 1000)
    if a.big_line:
        n = int(min(a.big_line, 16) * 1024 * 1024)
        update(sid, ("0123456789abcdef" * (n // 16 + 1))[:n])
        note(what="big line sent", bytes=n)
    frame = lambda body: (b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'
                          + sid.encode() + b'","update":{"sessionUpdate":"agent_message_chunk",'
                          b'"content":{"type":"text","text":"' + body + b'"}}}}\n')
    if a.bad_utf8:
        raw(frame(b"bad [\xc3\x28\xff] end"))
    if a.split_utf8:
        whole = frame("split [\u2264 \u4f60\u597d \U0001f680] end".encode())
        at = whole.index("\u2264".encode())
        for lo, hi in ((0, at + 1), (at + 1, at + 2), (at + 2, at + 5), (at + 5, len(whole))):
            raw(whole[lo:hi])
            time.sleep(0.06)
    if a.ask_permission:
        got = ask("perm-1", "session/request_permission", {
            "sessionId": sid, "toolCall": {"toolCallId": "call-1", "title": "write a file"},
            "options": [{"optionId": "yes", "name": "Allow once", "kind": "allow_once"},
                        {"optionId": "no", "name": "Reject once", "kind": "reject_once"}]})
        note(what="permission answer", answer=got)
        if (got.get("result") or {}).get("outcome", {}).get("outcome") != "selected":
            return done("cancelled")
    if a.unknown_request:
        send({"jsonrpc": "2.0", "method": "_vendor/hint", "params": {"x": 1}})
        note(what="unknown request answer", answer=ask("u-1", "vendor/not_a_method", {"x": 1}))
    if a.hold:
        stop.wait()
    done("cancelled" if stop.is_set() else "end_turn")


def handle(msg):
    note(what="got", frame=msg)
    m, rid, p = msg.get("method"), msg.get("id"), msg.get("params") or {}
    if m is None:
        q = answers.pop(rid, None)
        if q is not None:
            q.put(msg)
    elif m == "initialize":
        if a.stderr_flood:
            line = b"stderr filler " * 73 + b"\n"
            for _ in range(min(a.stderr_flood, 8192)):
                os.write(2, line[:1023] + b"\n")
        junk(a.noise)
        send({"jsonrpc": "2.0", "id": rid, "result": {"protocolVersion": 1,
              "agentCapabilities": {"loadSession": False}, "authMethods": []}})
    elif m == "session/new":
        sid = f"sess-{os.getpid()}-{len(cancelled)}"
        cancelled[sid] = threading.Event()
        send({"jsonrpc": "2.0", "id": rid, "result": {"sessionId": sid}})
    elif m == "session/prompt":
        sid = p.get("sessionId")
        if sid not in cancelled:
            return send({"jsonrpc": "2.0", "id": rid,
                         "error": {"code": -32602, "message": "no such session"}})
        cancelled[sid].clear()
        threading.Thread(target=turn, args=(rid, sid), daemon=True).start()
    elif m == "session/cancel":
        if p.get("sessionId") in cancelled:
            cancelled[p["sessionId"]].set()
    elif rid is not None:
        send({"jsonrpc": "2.0", "id": rid, "error": {"code": -32601, "message": "method not found"}})


note(what="start", argv=sys.argv[1:])
buf = b""
while True:
    chunk = os.read(0, 65536)
    if not chunk:
        break
    buf += chunk
    while b"\n" in buf:
        line, buf = buf.split(b"\n", 1)
        if line.strip():
            try:
                handle(json.loads(line))
            except ValueError:
                note(what="unparsable input", bytes=len(line))
note(what="stdin eof")
while a.linger and time.monotonic() < end_at:
    time.sleep(0.1)
