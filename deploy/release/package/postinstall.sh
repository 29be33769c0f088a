#!/bin/sh
# After installation and upgrade: the user, the master key, and the units as they are now. A server that runs is restarted.
set -e

getent passwd stepwell >/dev/null ||
	useradd --system --user-group --home-dir /var/lib/stepwell --shell /usr/sbin/nologin stepwell
if [ ! -e /etc/stepwell/master.key ]; then
	(umask 077 && head -c 32 /dev/urandom | base64 >/etc/stepwell/master.key.new)
	mv /etc/stepwell/master.key.new /etc/stepwell/master.key
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart stepwell.service stepwell-worker.service
fi
# deb: "configure" and the version before, if there was one; rpm: how many are installed.
if [ "$1" = 1 ] || { [ "$1" = configure ] && [ -z "$2" ]; }; then
	echo "Start the server: systemctl enable --now stepwell. Keep a copy of /etc/stepwell/master.key elsewhere."
fi
