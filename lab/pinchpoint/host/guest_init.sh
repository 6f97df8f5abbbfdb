# The first program of a guest: $1 the agent's Python, $2 where its package is, $3 where the kernel's modules are,
# $4 the device that leads to the lab.
# The root is this machine's, read only. What programs of the guest write is gone with it.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
python=$1 package=$2 modules=$3 line=$4
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
mkdir -p /run/netns /run/guest/lib /run/guest/tmp /run/guest/work /dev/shm
mount -t tmpfs shm /dev/shm
# The kernel loads modules by this program, also those that it needs itself; modprobe(8) looks below lib/modules.
ln -s "$modules" /run/guest/lib/modules
printf '#!/bin/sh\nexec modprobe -d /run/guest "$@"\n' >/run/guest/modprobe
chmod 755 /run/guest/modprobe
echo /run/guest/modprobe >/proc/sys/kernel/modprobe
# tmpfile(3) writes to /tmp; what this machine has there stays visible.
mount -t overlay tmp /tmp -o lowerdir=/tmp,upperdir=/run/guest/tmp,workdir=/run/guest/work
ip link set dev lo up
PYTHONPATH=$package "$python" -S -s -m pinchpoint.host.agent "$line"
poweroff -f
