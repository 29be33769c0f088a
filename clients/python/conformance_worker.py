"""The worker that `stepwell worker conformance -- python3 conformance_worker.py` judges: every action of the suite."""
from stepwell_worker import Worker, fail, poll, retry, skip, wait

worker = Worker()


@worker.action("conformance.echo")
def echo(task, value=None):
    return {"value": value}


@worker.action("conformance.fail")
def failing(task, message, code="failed", permanent=False, **more):
    raise skip(message) if more.get("skip") else fail(message, code) if permanent else retry(message, code=code)


@worker.action("conformance.sleep")
def sleep(task, seconds):
    task.sleep(seconds)


@worker.action("conformance.log")
def log(task, lines):
    for n in range(1, lines + 1):
        task.log("line %d" % n, n=n)


@worker.action("conformance.progress")
def progress(task, fraction, note):
    task.progress(fraction, note)
    task.sleep(600)


@worker.action("conformance.memo")
def memo(task, value):
    found = task.recall("m")
    if found is None:
        task.record("m", value)
        raise retry("again")
    return {"value": found}


@worker.action("conformance.spawn")
def spawn(task, count):
    for n in range(count):
        task.spawn("leaf", n, "conformance.echo", {"value": n})


@worker.action("conformance.wait")
def waiting(task, seconds, value):
    raise wait(seconds, {"value": value})


def cancel(task):
    task.log("stopped", n=task.state["n"])


@worker.action("conformance.poll", cancel=cancel)
def polling(task, times):
    polls = (task.state or {"n": 0})["n"]
    if polls < times:
        raise poll(0.01, {"n": polls + 1})
    return {"polls": polls}


@worker.action("conformance.outputs")
def outputs(task, step):
    return {"outputs": task.outputs(step)}


@worker.action("conformance.large")
def large(task, **params):
    return {"text": "x" * params["bytes"]}


worker.run()
