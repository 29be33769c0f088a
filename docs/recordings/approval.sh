# An execution that waits for a person: docs/get-started.md.
# 90x25 still
file publish.yaml docs/get-started.md
stepwell serve --listen 127.0.0.1:0 >serve.txt 2>&1 &
server=$!
trap 'kill $server; wait $server' EXIT
until grep -q 'serves http' serve.txt; do sleep 0.1; done
export STEPWELL_SERVER=$(awk '/serves http/ {print $3}' serve.txt)
stepwell pipelines create publish.yaml >/dev/null
show 'stepwell pipelines start publish -p version=1.1'
show 'stepwell executions why last'
show 'stepwell approvals approve last.ask --comment "checked on staging"'
show 'stepwell executions show last'
