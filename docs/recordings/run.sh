# A run on a terminal: README.md.
# 84x8 animated
file report.yaml README.md
show 'stepwell run report.yaml'
hold 4
