#!/bin/sh
# Before removal, not before an upgrade: deb says "remove", rpm 0.
set -e

case $1 in
remove | 0)
	if [ -d /run/systemd/system ]; then systemctl disable --now stepwell.service stepwell-worker.service; fi
	;;
esac
