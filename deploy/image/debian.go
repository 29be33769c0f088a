package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/stream"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// packages are what pipelines call most, beside Debian's smallest system.
var packages = []string{"ca-certificates", "ffmpeg", "git", "openssh-client", "python3", "tzdata"}

// leftOut are files that nobody reads in a container. Licences stay.
var leftOut = []string{"path-exclude=/usr/share/man/*", "path-exclude=/usr/share/locale/*", "path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright"}

// hooks run in the new system, at $1: the user, and nothing of the machine that builds.
var hooks = []string{
	`printf '` + strings.TrimSuffix(passwdLine, "\n") + `\n' >>"$1/etc/passwd"`,
	`printf '` + strings.TrimSuffix(groupLine, "\n") + `\n' >>"$1/etc/group"`,
	`rm -f "$1/etc/passwd-" "$1/etc/group-" "$1/etc/shadow-" "$1/etc/gshadow-"; : >"$1/etc/resolv.conf"; echo stepwell >"$1/etc/hostname"`,
}

// debian is a layer with Debian's packages, which apt installs from where Debian has them; their signatures are checked. The
// layer is read once.
func (b *build) debian(ctx context.Context) (v1.Layer, error) {
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return nil, errors.New("the full image needs mmdebstrap: apt-get install mmdebstrap")
	}
	args := []string{"--quiet", "--variant=minbase", "--architectures=" + b.arch, "--include=" + strings.Join(packages, ",")}
	for _, o := range leftOut {
		args = append(args, "--dpkgopt="+o)
	}
	for _, h := range hooks {
		args = append(args, "--customize-hook="+h)
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", append(args, b.suite, "-")...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(b.at.Unix(), 10))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return stream.NewLayer(&running{out, cmd}, stream.WithMediaType(types.OCILayer)), nil
}

// running is what a command writes; its end is an error unless the command ended well.
type running struct {
	io.Reader
	cmd *exec.Cmd
}

func (r *running) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == io.EOF {
		if failed := r.cmd.Wait(); failed != nil {
			return n, fmt.Errorf("mmdebstrap: %w", failed)
		}
	}
	return n, err
}

func (r *running) Close() error { return nil }
