# A failure after three attempts, with the commands that come next: docs/get-started.md.
# 96x10 still
file import.yaml docs/get-started.md
show 'stepwell run import.yaml'
