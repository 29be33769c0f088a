#!/bin/sh
# Installs Stepwell from its GitHub releases: sh install.sh --help
#
# Needs curl or wget, tar, gzip and sha256sum, shasum or openssl. Everything is downloaded and checked in a temporary
# directory first: what is installed already stays as it is until that has succeeded.
set -eu

releases=${STEPWELL_RELEASES:-https://github.com/stepwell/stepwell/releases}
version=${STEPWELL_VERSION:-latest}
prefix=${STEPWELL_PREFIX:-}
key=${STEPWELL_COSIGN_KEY:-}
identity='^https://github\.com/stepwell/stepwell/\.github/workflows/release\.yaml@refs/tags/v'
issuer=https://token.actions.githubusercontent.com

usage() {
	cat <<'END'
Usage: sh install.sh [--version VERSION] [--prefix DIRECTORY]

  --version VERSION   install this version, such as 0.1.0 (default: the latest)
  --prefix DIRECTORY  install into DIRECTORY/bin and DIRECTORY/share
                      (default: /usr/local for root, ~/.local for others)
  --help              show this help

Variables: STEPWELL_VERSION and STEPWELL_PREFIX are the flags' defaults.
STEPWELL_RELEASES is the URL of a mirror of the releases; it is https://, or
http:// on this machine. STEPWELL_COSIGN_KEY is a public key with which cosign
checks the signature; without it cosign checks that the release was signed by
the release workflow. Without cosign only the checksum is checked.
END
}

say() { printf '%s\n' "install.sh: $*" >&2; }
fail() {
	say "$1"
	[ $# -lt 2 ] || printf '  %s\n' "$2" >&2
	exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# The work is in a function, so that a script that arrives cut off does nothing.
main() {
	while [ $# -gt 0 ]; do
		case $1 in
		--version | --prefix)
			if [ $# -lt 2 ] || [ -z "$2" ]; then fail "$1 needs a value" "sh install.sh --help shows the flags"; fi
			if [ "$1" = --version ]; then version=$2; else prefix=$2; fi
			shift 2
			;;
		--version=?*) version=${1#*=} && shift ;;
		--prefix=?*) prefix=${1#*=} && shift ;;
		-h | --help) usage && exit 0 ;;
		*) fail "unknown argument $1" "sh install.sh --help shows the flags" ;;
		esac
	done

	version=${version#v}
	case $version in
	latest) ;;
	'' | *[!0-9A-Za-z.+-]* | *..* | [!0-9]*) fail "\"$version\" is not a version" "an example: 0.1.0" ;;
	esac

	# Plain HTTP is for a server on this machine alone: anyone on the way could change what it answers.
	protocol='=https'
	case $releases in
	https://*) ;;
	http://*)
		authority=${releases#http://}
		authority=${authority%%/*}
		case $authority in
		*@*) fail "STEPWELL_RELEASES must not hold a user" "give the URL without user@" ;;
		'[::1]' | '[::1]:'*) ;;
		*)
			case ${authority%%:*} in
			127.0.0.1 | localhost) ;;
			*) fail "$releases is plain HTTP" "use https://, or http:// on 127.0.0.1, localhost or [::1]" ;;
			esac
			;;
		esac
		protocol='=http,https'
		;;
	*) fail "STEPWELL_RELEASES is \"$releases\"" "it must begin with https://" ;;
	esac
	releases=${releases%/}

	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	MINGW* | MSYS* | CYGWIN*) fail "this script is not for Windows" "npm install -g stepwell, or unpack the .zip of $releases" ;;
	*) fail "no release is built for $(uname -s)" "go install github.com/stepwell/stepwell/cmd/stepwell@latest builds it" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "no release is built for $(uname -m)" "go install github.com/stepwell/stepwell/cmd/stepwell@latest builds it" ;;
	esac
	# A shell under Rosetta says x86_64 on an arm64 processor.
	if [ $os/$arch = darwin/amd64 ] && [ "$(sysctl -n sysctl.proc_translated 2>/dev/null || true)" = 1 ]; then arch=arm64; fi

	if [ -z "$prefix" ]; then
		if [ "$(id -u)" = 0 ]; then
			prefix=/usr/local
		else
			[ -n "${HOME:-}" ] || fail "neither --prefix nor HOME is set" "sh install.sh --prefix DIRECTORY"
			prefix=$HOME/.local
		fi
	fi
	umask 022
	mkdir -p "$prefix/bin" 2>/dev/null || fail "cannot create $prefix/bin" "choose a directory that you may write to: --prefix DIRECTORY"
	[ -w "$prefix/bin" ] || fail "cannot write to $prefix/bin" "choose a directory that you may write to: --prefix DIRECTORY"
	prefix=$(cd "$prefix" && pwd)

	for program in tar gzip; do has $program || fail "$program is missing" "install it and run this script again"; done
	if has sha256sum; then
		sum() { sha256sum "$1"; }
	elif has shasum; then
		sum() { shasum -a 256 "$1"; }
	elif has openssl; then
		sum() { openssl dgst -sha256 -r "$1"; }
	else
		fail "no program computes SHA-256 sums" "install sha256sum, shasum or openssl"
	fi
	if has curl; then
		fetch() { curl --fail --silent --show-error --location --proto "$protocol" --proto-redir "$protocol" --retry 3 --connect-timeout 20 --output "$2" "$1"; }
	elif has wget; then
		fetch() { wget -q -T 60 -O "$2" "$1"; }
		case $protocol in *http,*) ;; *) ! wget --help 2>&1 | grep -q -e --https-only || fetch() { wget -q -T 60 --https-only -O "$2" "$1"; } ;; esac
	else
		fail "curl and wget are missing" "install one of them and run this script again"
	fi

	temporary=$(mktemp -d "${TMPDIR:-/tmp}/stepwell.XXXXXX")
	staged=
	trap 'rm -rf "$temporary" ${staged:+"$staged"}' EXIT
	trap 'exit 130' INT
	trap 'exit 143' HUP TERM

	# get NAME downloads a file of the release.
	get() { fetch "$place/$1" "$temporary/$1" || fail "cannot download $place/$1" "does the version exist? $releases lists them"; }

	if [ "$version" = latest ]; then place=$releases/latest/download; else place=$releases/download/v$version; fi
	get checksums.txt
	archive=$(awk -v end="_${os}_$arch.tar.gz" '{ name = $2; sub(/^\*/, "", name) } name ~ /^stepwell_[0-9A-Za-z.+-]+_[a-z0-9_]+\.tar\.gz$/ && substr(name, length(name) - length(end) + 1) == end { print name; exit }' "$temporary/checksums.txt")
	[ -n "$archive" ] || fail "the release has no archive for $os/$arch" "$releases lists what there is"
	found=${archive#stepwell_}
	found=${found%"_${os}_$arch.tar.gz"}
	[ "$version" = latest ] || [ "$version" = "$found" ] || fail "$place holds version $found instead of $version"

	if has cosign; then
		get checksums.txt.sigstore.json
		if [ -n "$key" ]; then
			set -- --key "$key" --insecure-ignore-tlog=true
		else
			set -- --certificate-identity-regexp "$identity" --certificate-oidc-issuer $issuer
		fi
		cosign verify-blob "$@" --bundle "$temporary/checksums.txt.sigstore.json" "$temporary/checksums.txt" >"$temporary/cosign" 2>&1 || {
			cat "$temporary/cosign" >&2
			fail "the signature of checksums.txt is wrong" "nothing was installed"
		}
		say "the signature is right"
	elif [ -n "$key" ]; then
		fail "STEPWELL_COSIGN_KEY is set and cosign is missing" "install cosign, or unset the variable"
	fi

	place=$releases/download/v$found # a newer release may become the latest meanwhile
	get "$archive"
	wanted=$(awk -v name="$archive" '{ n = $2; sub(/^\*/, "", n) } n == name { print $1; exit }' "$temporary/checksums.txt")
	actual=$(sum "$temporary/$archive") && actual=${actual%% *}
	[ "$actual" = "$wanted" ] || fail "$archive is not what checksums.txt names: its SHA-256 is $actual and not $wanted" "nothing was installed; try again, and report it if it stays so"

	mkdir "$temporary/files"
	tar -xzf "$temporary/$archive" -C "$temporary/files" || fail "$archive cannot be unpacked"
	"$temporary/files/stepwell" --version >"$temporary/version" || fail "the program of $archive does not run on this machine"

	# The program is replaced in one step: one that runs goes on with its own file.
	staged=$prefix/bin/.stepwell.$$
	cp "$temporary/files/stepwell" "$staged"
	chmod 755 "$staged"
	mv -f "$staged" "$prefix/bin/stepwell"
	for directory in man/man1 bash-completion/completions zsh/site-functions fish/vendor_completions.d; do mkdir -p "$prefix/share/$directory"; done
	cp "$temporary"/files/man/*.1.gz "$prefix/share/man/man1/"
	cp "$temporary/files/completions/stepwell.bash" "$prefix/share/bash-completion/completions/stepwell"
	cp "$temporary/files/completions/_stepwell" "$prefix/share/zsh/site-functions/"
	cp "$temporary/files/completions/stepwell.fish" "$prefix/share/fish/vendor_completions.d/"

	say "installed $prefix/bin/stepwell: $(cat "$temporary/version")"
	case :${PATH:-}: in
	*":$prefix/bin:"*) ;;
	*) say "$prefix/bin is not on PATH. Add it: export PATH=\"$prefix/bin:\$PATH\"" ;;
	esac
}

main "$@"
