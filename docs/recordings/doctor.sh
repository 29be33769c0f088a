# The checks of a machine and its database: docs/troubleshooting.md.
# 110x17 still
file report.yaml README.md
stepwell run report.yaml >/dev/null 2>&1
show 'stepwell doctor'
