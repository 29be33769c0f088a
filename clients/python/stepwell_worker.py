"""A Stepwell worker, on Python's standard library alone (3.8 or later). Copy this file, or put its folder on PYTHONPATH.

    worker = Worker()  # STEPWELL_SERVER and STEPWELL_API_KEY say where and who

    @worker.action("text.count", params={"path": {"type": "string", "required": True}})
    def count(task, path):
        return {"words": len(open(path).read().split())}

    worker.run()  # until SIGTERM or Ctrl-C

A handler gets its task and the step's parameters, rendered, checked and complete, and returns the outputs: a dict, or None. It may
raise fail, retry, skip, wait, poll or wait_for; any other exception fails the attempt, and the step's retry policy decides. It
runs in a thread of its own, at least once; what must not happen twice goes through task.once. When task.stopped is set (a cancel,
the time limit) it should end: task.sleep raises Stopped then. An outcome is kept, and offered again, until the node has it.
"""
import http.client, json, os, signal, socket, sys, threading, time, urllib.error, urllib.parse, urllib.request

MAX_OUTPUT, MAX_LINES, MAX_TEXT, MAX_KEPT = 16 << 20, 1000, 8000, 1000
FIELDS = ("step_id", "epoch", "execution_id", "pipeline", "step_key", "step_name", "action", "attempt", "state", "dir")


class End(Exception):
    """How an attempt ends otherwise than with outputs. Raise what the functions below make."""
    def __init__(self, **outcome):
        super().__init__(outcome.get("error", outcome))
        self.outcome = outcome


class Stopped(Exception):
    """The handler was told to stop, and does."""


class Problem(Exception):
    """The node's answer to a call that it refuses."""
    def __init__(self, answer):
        super().__init__("%s%s" % (answer["message"], answer.get("hint") and " (%s)" % answer["hint"] or ""))
        self.code, self.hint = answer["code"], answer.get("hint")


def key_of(one):
    return one["step_id"], one["epoch"], one.get("kind", "")

def fail(message, code="failed", hint=""):  # no retry will help
    return End(status="failed", permanent=True, error={"code": code, "message": message, "hint": hint})

def retry(message, after=0, code="failed", defer=False):  # after so many seconds; deferred, it does not count as an attempt
    return End(status="failed", retry_after_ms=int(after * 1000), defer=defer, error={"code": code, "message": message})

def skip(reason):
    return End(status="skipped", error={"message": reason})

def wait(seconds, output=None):  # completes then, and holds no worker until then
    return End(status="waiting", wait={"after_ms": int(seconds * 1000), "output": output or {}})

def poll(seconds, state, external_id=""):  # calls the handler again then, with task.state; the same attempt
    return End(status="waiting", wait={"after_ms": int(seconds * 1000), "resume": True, "state": state, "external_id": external_id})

def wait_for(key, seconds=0, output=None):  # a signal with the key; without one in time (0: any), completes with output or fails
    about = {"await": True, "external_id": key, "after_ms": int(seconds * 1000)}
    return End(status="waiting", wait=about if output is None else dict(about, output=output))


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Redirects are errors: the API key is for the node alone."""
    def redirect_request(self, *_):
        return None


class Socket(urllib.request.HTTPHandler):
    """Calls of http://localhost go over a socket of this machine: that of a server which has started this program as a plugin."""
    def __init__(self, path):
        super().__init__()
        self.path = path

    def http_open(self, request):
        return self.do_open(self.connection, request)

    def connection(self, host, timeout=60, **more):
        made = http.client.HTTPConnection(host, timeout=timeout, **more)
        made.connect = lambda: self.connect(made)
        return made

    def connect(self, made):
        made.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.sock.settimeout(made.timeout)
        made.sock.connect(self.path)


class Task:
    def __init__(self, worker, task):
        for name in FIELDS:
            setattr(self, name, task.get(name))
        self.worker, self.params, self.once_only, self.claimed = worker, task.get("params") or {}, task.get("not_idempotent"), False
        self.id, self.call_path = {"step_id": self.step_id, "epoch": self.epoch}, "steps/%s/" % urllib.parse.quote(self.step_id, safe="")
        self.cancels = task.get("kind") == "cancel"  # a call that stops work outside: no attempt, and no slot
        if self.cancels:
            self.id["kind"] = "cancel"
        self.begun, self.time_limit = time.monotonic(), task.get("timeout_ms", 0) / 1000
        self.stopped, self.outcome, self.lines, self.dropped, self.done = threading.Event(), None, [], 0, None

    def log(self, message, level="info", **metadata):
        """Adds a line to the step's log. It never waits: lines that come faster than they can be sent are counted instead."""
        text = json.dumps(metadata, default=str)
        if len(text) > MAX_TEXT or "NaN" in text or "Infinity" in text:
            text = json.dumps({"unreadable": len(text)})
        with self.worker.changed:
            if len(self.lines) < MAX_LINES:
                self.lines.append({"level": level, "message": str(message)[:MAX_TEXT], "metadata": json.loads(text)})
            else:
                self.dropped += 1

    def progress(self, fraction, note=""):
        if 0 <= fraction <= 1:
            self.done = {"fraction": float(fraction), "note": str(note)[:MAX_TEXT]}

    def sleep(self, seconds):
        if self.stopped.wait(seconds):
            raise Stopped()

    def ask(self, call, **body):
        """Makes a call on the step until the node has answered it."""
        return self.worker.insist(self, self.call_path + call, dict(body, epoch=self.epoch))

    def recall(self, key):
        """The value that record stored in any attempt of this step, or None."""
        return self.ask("memo", key=key).get("value")

    def record(self, key, value):
        self.ask("memo", key=key, value=value)

    def once(self, key, make):
        """What make() returned the first time, in any attempt of this step."""
        answer = self.ask("memo", key=key)
        if not answer["found"]:
            answer["value"] = make()
            self.record(key, answer["value"])
        return answer.get("value")

    def spawn(self, name, key="", action="", params=None, depends_on=None, **more):
        """Adds a step to the execution; it may start at once. More are retry, on_failure and timeout_seconds."""
        self.ask("spawn", steps=[dict(more, name=name, key=str(key), action=action or name, params=params or {}, depends_on=depends_on)])

    def outputs(self, step=""):
        """The outputs of a step of the execution, or those of all that have ended, merged."""
        return self.ask("outputs/" + urllib.parse.quote(step, safe="")).get("value")

    def own(self, state):
        """Makes work outside known, before it is left to itself."""
        self.ask("own", state=state)

    def callback(self):
        """{"key", "url"}: the address at which something outside can end the step, once it has raised wait_for(key)."""
        return self.ask("callback")


class Worker:
    def __init__(self, servers=None, key=None, name=None, concurrency=8, queues=(), version=""):
        self.nodes = [n.rstrip("/") for n in (servers or os.environ.get("STEPWELL_SERVER") or "http://127.0.0.1:8010").split(",")]
        self.key, self.joined, self.lease, self.welcome = key or os.environ.get("STEPWELL_API_KEY", "").strip(), None, 15, False
        self.about = {"protocol": 1, "version": version, "queues": list(queues), "concurrency": concurrency}
        self.name, self.actions, self.held = name or "%s-%d" % (socket.gethostname(), os.getpid()), {}, {}
        self.instance = os.urandom(4).hex()  # another process under this name is told apart by it
        handlers = [NoRedirect]
        if self.nodes[0].startswith("unix://"):
            handlers += [urllib.request.ProxyHandler({}), Socket(self.nodes[0][len("unix://"):])]
            self.nodes = ["http://localhost"]
        self.opener = urllib.request.build_opener(*handlers)
        self.joining, self.changed, self.leaving, self.refused = threading.Lock(), threading.Condition(), threading.Event(), None

    def action(self, name, params=None, cancel=None, **about):
        """Registers a handler. Params: {"width": {"type": "integer", "required": True, "description": "…", "default": …}, …}.

        Cancel(task) stops the work outside that task.state names (the state of poll or own) when its step is given up. It is called at
        least once, in any worker that serves the action, perhaps long after: work that is gone is a success.
        """
        def add(handler):
            fields = [dict(field, name=n) for n, field in (params or {}).items()]
            summary = (handler.__doc__ or "").strip().split("\n")[0]
            self.actions[name] = dict({"name": name, "summary": summary, "params": fields, "cancels": cancel is not None}, **about), handler, cancel
            return handler
        return add

    def post(self, base, call, body, timeout=60):
        headers = {"Content-Type": "application/json"}
        if self.key:  # a server on this machine may need none
            headers["Authorization"] = "Bearer " + self.key
        request = urllib.request.Request(base + "/api/v1/worker/" + call, json.dumps(dict(body, worker=self.name, instance=self.instance), allow_nan=False).encode(), headers)
        try:
            with self.opener.open(request, timeout=timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as e:
            try:
                problem = Problem(json.load(e))
            except (ValueError, KeyError, TypeError):
                raise OSError("%s answers with status %d" % (base, e.code)) from None
            raise problem from None
        except http.client.HTTPException as e:
            raise OSError(repr(e)) from None

    def call(self, call, body):
        """Makes a call to the node, joining one first. OSError: it does not answer, the next call goes to the next node."""
        with self.joining:
            base = self.joined or self.nodes[0]
            try:
                if not self.joined:
                    out = self.post(base, "join", dict(self.about, actions=[a[0] for a in self.actions.values()], holding=self.holding()), 10)
                    self.joined, self.lease, self.welcome = base, out["lease_seconds"], True
                    if out.get("worker", self.name) != self.name:
                        self.say("the node calls this worker %s, not %s" % (out["worker"], self.name))
                        self.name = out["worker"]
                    self.say("joined " + base)
                    self.nodes += [n for n in (n.rstrip("/") for n in out.get("nodes") or ()) if n not in self.nodes][:100]
            except (OSError, Problem) as e:
                self.nodes.append(self.nodes.pop(0))
                if isinstance(e, Problem) and not self.welcome and e.code in ("invalid", "unauthenticated", "forbidden"):
                    self.refused = e
                    self.leaving.set()
                raise
        try:
            return self.post(base, call, body)
        except (OSError, Problem) as e:
            first = isinstance(e, Problem) and e.hint == "join first"
            with self.joining:
                if self.joined == base and (first or isinstance(e, OSError)):
                    self.joined = None
                    if not first:
                        self.nodes.append(self.nodes.pop(0))
            raise OSError(str(e)) if first else e

    def insist(self, task, call, body):
        pause = 0.02
        while True:
            try:
                return self.call(call, body)
            except (OSError, Problem) as e:
                if isinstance(e, Problem) and e.code != "unavailable":
                    raise
            task.sleep(pause)
            pause = min(2 * pause, 2)

    def holding(self):
        with self.changed:
            return [t.id for t in self.held.values() if not t.cancels]

    def turn(self, **body):
        out = self.call("turn", body)
        with self.changed:
            for one in out["stop"]:
                if key_of(one) in self.held:
                    self.held[key_of(one)].stopped.set()
            for one in out["committed"] + out["refused"]:
                self.held.pop(key_of(one), None)
            self.changed.notify_all()
        self.begin(out.get("cancels") or ())
        if out.get("drain"):
            self.leaving.set()
        return out

    def begin(self, tasks):
        """Runs the handlers of tasks. One that is held already came twice."""
        with self.changed:
            fresh = {key_of(t): Task(self, t) for t in tasks if key_of(t) not in self.held}
            self.held.update(fresh)
        for task in fresh.values():
            threading.Thread(target=self.handle, args=(task,), daemon=True).start()

    def fetch(self):
        """Asks for tasks while there are free slots."""
        pause = 0.02
        while not self.leaving.is_set():
            with self.changed:
                want = self.about["concurrency"] - len([t for t in self.held.values() if not t.outcome and not t.cancels])
                if want <= 0 or len(self.held) > MAX_KEPT:
                    self.changed.wait(1)
                    continue
            try:
                tasks = self.turn(want=want, wait_ms=10000)["tasks"]
                if tasks and self.leaving.is_set():
                    tasks = self.turn(back=[{"step_id": t["step_id"], "epoch": t["epoch"]} for t in tasks])["tasks"]
                pause = 0.02
            except (OSError, Problem) as e:
                self.say("no tasks can be fetched, retrying: %s" % e)
                self.leaving.wait(pause)
                pause = min(2 * pause, 2)
                continue
            self.begin(tasks)

    def handle(self, task):
        """Runs a task's handler."""
        try:
            if task.once_only and not self.claim(task):
                return
            _, handler, cancel = self.actions[task.action]
            output = cancel(task) if task.cancels else handler(task, **task.params)
            if len(json.dumps(output, allow_nan=False)) > MAX_OUTPUT:
                raise fail("the outputs are larger than %d MiB" % (MAX_OUTPUT >> 20), "limit", "write a file and return its path")
            outcome = {"status": "completed", "output": {} if output is None else output}
        except End as e:
            outcome = e.outcome
        except BaseException as e:
            code, message = "failed", "%s: %s" % (type(e).__name__, e)
            if task.stopped.is_set():
                code, message = ("timeout", "the time is over") if self.overdue(task) else ("cancelled", "stopped on request")
            outcome = {"status": "failed", "error": {"code": code, "message": message[:MAX_TEXT]}}
            if isinstance(e, Problem):  # such as that of a wrong spawn
                outcome.update(permanent=e.code in ("invalid", "limit"), error={"code": e.code, "message": str(e)[:MAX_TEXT]})
        outcome.update(task.id, ran_ms=(time.monotonic() - task.begun) * 1000)
        with self.changed:
            task.outcome = outcome
            self.changed.notify_all()

    def claim(self, task):
        """Says that a task which must not run twice begins. If it must not, the node decides about the step."""
        try:
            self.insist(task, "claim", task.id)
            task.claimed = True
        except Problem as e:
            if e.code != "conflict":
                raise
            with self.changed:
                self.held.pop(key_of(task.id), None)
            return False
        return True

    def overdue(self, task):
        return 0 < task.time_limit <= time.monotonic() - task.begun

    def send(self):
        """Offers outcomes until they are committed, says what is held, and sends lines and progress."""
        beat, pause = 0, 0.02
        while True:
            with self.changed:
                if not any(t.outcome for t in self.held.values()):
                    self.changed.wait(min(0.2, self.lease / 3))
                tasks, outcomes, size = list(self.held.values()), [], 0
            try:
                for task in tasks:
                    if self.overdue(task):
                        task.stopped.set()
                    if not task.outcome:
                        if not task.cancels:
                            self.tell(task)
                    elif size < MAX_OUTPUT and len(outcomes) < 1000:
                        task.outcome.setdefault("log", self.lines(task))
                        outcomes.append(task.outcome)
                        size += len(json.dumps(task.outcome))
                if outcomes or time.monotonic() - beat >= self.lease / 3:
                    beat = time.monotonic()
                    out = self.turn(outcomes=outcomes, holding=self.holding())
                    if outcomes and not out["committed"] + out["refused"]:
                        raise OSError("the node has not committed them")
                pause = 0.02
            except (OSError, Problem) as e:
                self.say("outcomes are kept, and offered again: %s" % e)
                time.sleep(pause)
                pause = min(2 * pause, 2)

    def lines(self, task):
        with self.changed:
            lines, dropped, task.lines, task.dropped = task.lines, task.dropped, [], 0
        if dropped:
            lines.append({"level": "warning", "message": "%d lines were left out, because they came faster than they could be sent" % dropped})
        return lines

    def tell(self, task):
        done, task.done, lines, ran = task.done, None, self.lines(task), time.monotonic() - task.begun
        try:
            if ran > 1 and not (task.claimed or task.once_only):  # people see that it runs, and where
                self.call("claim", dict(task.id, ran_ms=ran * 1000))
                task.claimed = True
            if done:
                self.call(task.call_path + "progress", dict(done, epoch=task.epoch))
            if lines:
                self.call(task.call_path + "log", {"epoch": task.epoch, "lines": lines})
        except OSError:
            with self.changed:
                task.lines = lines + task.lines
            raise
        except Problem:
            task.claimed = True  # the attempt is no longer this worker's

    def say(self, text):
        if not self.refused:  # that is said at the end
            print("stepwell worker: " + text, file=sys.stderr, flush=True)

    def run(self, grace=30):
        """Runs tasks until SIGTERM or SIGINT; then those that run have so many seconds to end. A second signal takes that from them."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: os._exit(130) if self.leaving.is_set() else self.leaving.set())
        for loop in (self.fetch, self.send):
            threading.Thread(target=loop, daemon=True).start()
        while not self.leaving.wait(1):  # on Windows, signals wait for the end of a wait
            pass
        if self.refused:
            sys.exit("stepwell worker: %s" % self.refused)
        with self.changed:
            self.changed.wait_for(lambda: not self.held, grace)
        try:
            self.turn(leaving=True)
        except (OSError, Problem) as e:
            self.say("the node does not know that this worker has ended: %s" % e)
