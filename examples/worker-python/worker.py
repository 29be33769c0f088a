"""A worker with one action: table.summary says what is in the columns of a CSV file.

    STEPWELL_SERVER=http://127.0.0.1:8010 STEPWELL_API_KEY=… PYTHONPATH=clients/python python3 examples/worker-python/worker.py
"""
import csv
import os
import statistics

from stepwell_worker import Worker, fail

worker = Worker()


@worker.action("table.summary", params={
    "path": {"type": "string", "required": True, "description": "A CSV file with a heading; relative to the pipeline's folder."},
    "column": {"type": "string", "description": "Only this column. Defaults to all."},
})
def summary(task, path, column=None):
    """Counts the rows of a CSV file, and gives least, greatest and mean of its numeric columns."""
    try:
        file = open(os.path.join(task.dir or "", path), newline="", encoding="utf-8")
    except OSError as e:
        raise fail(str(e), "not_found")  # another attempt will not help
    columns, rows = {}, 0
    with file:
        for row in csv.DictReader(file):
            rows += 1
            if rows % 10_000 == 0:
                task.sleep(0)  # ends here when the step is to stop
                task.progress(file.buffer.tell() / os.fstat(file.fileno()).st_size, "%d rows" % rows)
            for name in [column] if column else row:
                if name not in row:
                    raise fail("there is no column %r" % name, "invalid", "the columns are " + ", ".join(row))
                try:
                    columns.setdefault(name, []).append(float(row[name]))
                except (TypeError, ValueError):
                    pass  # not a number
    task.log("read the table", rows=rows, path=path)
    return {"rows": rows, "columns": {name: {"numbers": len(v), "min": min(v), "max": max(v), "mean": statistics.fmean(v)} for name, v in columns.items() if v}}


worker.run()
