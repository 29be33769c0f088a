# The reason why an execution is as it is: docs/troubleshooting.md.
# 90x6 still
file import.yaml docs/get-started.md
stepwell run import.yaml >/dev/null 2>&1 || true
show 'stepwell executions why last'
show 'stepwell executions why last --step store'
