# A kill and a resume: docs/get-started.md.
# 88x19 animated
file convert.yaml docs/get-started.md
set -m # the run is a process group of its own
printf '\e[32m$\e[0m stepwell run convert.yaml\n'
stepwell run convert.yaml &
sleep 2
kill -9 $!
wait $! 2>/dev/null || true
show 'stepwell run convert.yaml --resume'
show 'cat work.log'
hold 4
