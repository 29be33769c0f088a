#!/bin/sh
# The data, the master key without which its secrets cannot be read, and the user to whom the data belongs stay.
set -e

if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
case $1 in
purge)
	if [ -e /etc/stepwell/master.key ]; then echo "/etc/stepwell/master.key and /var/lib/stepwell stay: remove them yourself."; fi
	;;
esac
