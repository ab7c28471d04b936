#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command, as root, in a virtual machine with soft-RoCE: QEMU and Debian's stock kernel.
set -uo pipefail

usage() {
	cat <<'END'
usage: tests/rdma/guest.sh [--mem MIB] [--smp N | --icount] [--timeout S] [--dir D] -- COMMAND...

The guest sees the host's file system at the same paths, starts in the same directory, and has an environment of its
own (env A=B COMMAND passes a variable). What it writes is lost, but for what it writes below D. No network device but
lo is there.

  --mem MIB     memory (1536)
  --smp N       processors (2)
  --icount      one processor, whose clock goes by its instructions, 2 ns each: what is measured there does not depend
                on what else the host does
  --timeout S   the command's time, once the guest is up (600)
  --dir D       made when it is not there; the guest's logs are kept in D/.guest

Exits with the command's status, or
   77  the laboratory cannot be had here; one line says what is missing
  124  the time is over
  125  the guest did not boot, or died; the end of its console is printed
  126  the command ended with 0, but the guest's kernel logged a bug or a warning; it is printed
END
}

mem=1536
smp=2
icount=
limit=600
dir=
while [ $# -gt 0 ]; do
	case $1 in
	--mem | --smp | --timeout | --dir)
		[ $# -ge 2 ] || {
			usage >&2
			exit 2
		}
		case $1 in
		--mem) mem=$2 ;;
		--smp) smp=$2 ;;
		--timeout) limit=$2 ;;
		--dir) dir=$2 ;;
		esac
		shift 2
		;;
	--icount)
		icount=yes
		smp=1
		shift
		;;
	--)
		shift
		break
		;;
	*) break ;;
	esac
done
[ $# -gt 0 ] || {
	usage >&2
	exit 2
}

here=$(cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")" && pwd)
. "$here/complaints.sh"
PATH=$PATH:/usr/sbin:/sbin
boot_limit=150 # seconds; 10 on a quiet machine
boots=3
own_dir=
qemu=

# shellcheck disable=SC2317  # called by the trap
finish() {
	local status=$?

	trap - EXIT
	[ -z "$qemu" ] || kill -KILL "$qemu" 2>/dev/null
	[ -z "$own_dir" ] || rm -rf "$own_dir"
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# It may be gone since the laboratory was made.
command -v qemu-system-x86_64 >/dev/null || {
	echo "guest.sh: skipped: qemu-system-x86_64 is not installed (deploy/packages.sh test)" >&2
	exit 77
}
lab=$("$here/prepare.sh")
case $? in
0) ;;
77) exit 77 ;;
*) exit 125 ;;
esac

if [ -z "$dir" ]; then
	own_dir=$(mktemp -d)
	dir=$own_dir
fi
mkdir -p "$dir/.guest" || exit 2
dir=$(realpath "$dir")
control=$dir/.guest

# Some hosts offer a /dev/kvm on processors without vmx and svm: a guest there is slower than an emulated one, or dies.
has_kvm() {
	[ -z "$icount" ] && [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo
}

# Without erms and fsrm the kernel copies by words: emulated, "rep movsb" goes byte by byte.
accelerator() {
	if has_kvm; then
		echo "-accel kvm -cpu host"
	elif [ -n "$icount" ]; then
		echo "-accel tcg,thread=single,tb-size=256 -icount shift=1,sleep=off -cpu max,-erms,-fsrm"
	else
		echo "-accel tcg,thread=multi,tb-size=256 -cpu max,-erms,-fsrm"
	fi
}

# The frequency of this host's time-stamp counter; nothing where "cpu MHz" is how fast the processor runs just now.
counter_khz() {
	grep -qw constant_tsc /proc/cpuinfo && grep -qw nonstop_tsc /proc/cpuinfo || return 0
	! grep -qw aperfmperf /proc/cpuinfo && [ ! -e /sys/devices/system/cpu/cpu0/cpufreq ] || return 0
	awk '$1 == "cpu" && $2 == "MHz" { printf "%.0f", 1000 * $4; exit }' /proc/cpuinfo
}

# The counter of an emulated processor is that of the host, and a clock by it takes no system call, as on any machine.
# The kernel is told the frequency: what it finds out while it boots on a busy machine has been wrong by a factor of
# ten, and so were all clocks and limits. Where that is not known the clock is ACPI's timer. A guest that gets no time
# from the host is no lock-up, and its timer is not broken: the kernel panics when it sees no tick for a while at its
# start.
clock_options() {
	local khz=

	[ -n "$icount" ] || khz=$(counter_khz)
	if [ -n "$khz" ]; then
		echo "tsc=reliable tsc_early_khz=$khz clocksource=tsc"
	else
		echo "tsc=unstable clocksource=acpi_pm"
	fi
	echo "no_timer_check"
}

kernel_options() {
	echo "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic mitigations=off nokaslr nowatchdog"
	has_kvm || clock_options
}

# In QEMU's options a comma ends a value, and two are one.
share() {
	echo "local,path=${1//,/,,},mount_tag=$2,security_model=none,multidevs=remap"
}

start_guest() {
	local -a accel

	read -ra accel <<<"$(accelerator)"
	rm -f "$control"/{up,status,dmesg,console}
	# It does not outlive us, also when we are killed.
	setpriv --pdeathsig KILL qemu-system-x86_64 "${accel[@]}" -M pc,hpet=off -smp "$smp" -m "$mem" \
		-nodefaults -no-user-config -display none -no-reboot -rtc base=utc \
		-kernel "$lab/kernel" -initrd "$lab/initrd" \
		-append "$(kernel_options | tr '\n' ' ')" \
		-chardev "file,id=console,path=${control//,/,,}/console" -serial chardev:console \
		-device virtio-serial-pci -chardev stdio,id=output,signal=off -device virtconsole,chardev=output \
		-virtfs "$(share / host),readonly=on" -virtfs "$(share "$dir" guest)" \
		</dev/null 2>"$control/qemu" &
	qemu=$!
}

stop_guest() {
	kill -KILL "$qemu" 2>/dev/null
	wait "$qemu" 2>/dev/null
	qemu=
}

# wait_until SECONDS FILE: true when the file came; false when the guest ended without, or the time did.
wait_until() {
	local deadline=$((SECONDS + $1)) file=$2

	until [ -e "$file" ]; do
		[ "$SECONDS" -lt "$deadline" ] || return 1
		kill -0 "$qemu" 2>/dev/null || break
		sleep 0.1
	done
	[ -e "$file" ]
}

running() {
	kill -0 "$qemu" 2>/dev/null
}

last_words() {
	echo "guest.sh: $*" >&2
	cat "$control/qemu" >&2
	tail -n 40 "$control/console" >&2 2>/dev/null
}

# A boot may fail because the machine is too busy, and is tried again; the command never is.
boot() {
	local n

	for ((n = 1; n <= boots; n++)); do
		start_guest
		wait_until "$boot_limit" "$control/up" && return
		stop_guest
		last_words "boot $n of $boots failed"
	done
	return 1
}

cp "$here/guest-init.sh" "$control/init"
chmod 755 "$control/init"
echo "$dir" >"$control/dir"
{
	printf 'cd %q || exit\n' "$PWD"
	printf '%q ' "$@"
	echo
} >"$control/command"

boot || exit 125
if ! wait_until "$limit" "$control/status"; then
	died=true
	! running || died=false
	stop_guest
	if [ "$died" = true ]; then
		last_words "the guest died"
		exit 125
	fi
	last_words "the time limit of $limit s is over"
	exit 124
fi
# What the command said is still on its way until QEMU ends.
for ((n = 0; n < 100; n++)); do
	running || break
	sleep 0.1
done
stop_guest
status=$(<"$control/status")
said=$(complaints <"$control/dmesg")
if [ "$status" -eq 0 ] && [ -n "$said" ]; then
	printf "guest.sh: the guest's kernel complained:\n%s\n" "$said" >&2
	exit 126
fi
exit "$status"
