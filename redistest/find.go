package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// program is a redis-server that can be started.
type program struct {
	path string
	env  []string
}

// errNone names the remedy.
var errNone = errors.New("no Redis server: install redis-server, or name a server in STEPWELL_TEST_REDIS (host:port; its database 1 is emptied)")

func find() (program, error) {
	if path, err := exec.LookPath("redis-server"); err == nil {
		return program{path: path}, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return program{}, errNone
	}
	p, err := unpacked(filepath.Join(cache, "stepwell-test-tools", "redis"))
	if err != nil {
		return program{}, errors.Join(errNone, err)
	}
	return p, nil
}

// packages of Debian that the server needs.
var packages = []string{"redis-tools", "libjemalloc2", "liblzf1", "libatomic1"}

// unpacked is the server of Debian's packages in a folder, downloaded there first if it is missing; that needs no rights.
func unpacked(dir string) (program, error) {
	if p, ok := installed(dir); ok {
		return p, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return program{}, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return program{}, err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "redis-")
	if err != nil {
		return program{}, err
	}
	defer os.RemoveAll(tmp)
	if err := run(tmp, "apt-get", append([]string{"download", "-qq"}, packages...)...); err != nil {
		return program{}, err
	}
	files, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil {
		return program{}, err
	}
	for _, deb := range files {
		if err := run(tmp, "dpkg", "-x", deb, filepath.Join(tmp, "root")); err != nil {
			return program{}, err
		}
	}
	if err := os.Rename(filepath.Join(tmp, "root"), dir); err != nil && !errors.Is(err, os.ErrExist) { // another process may be faster
		return program{}, err
	}
	if p, ok := installed(dir); ok {
		return p, nil
	}
	return program{}, fmt.Errorf("the packages in %s have no redis-server that runs", dir)
}

func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// installed is the server in a folder of unpacked packages: redis-check-rdb is the same program under another name.
func installed(dir string) (program, bool) {
	libraries, _ := filepath.Glob(filepath.Join(dir, "usr/lib/*-linux-*")) // the pattern is a good one
	path := filepath.Join(dir, "usr/bin/redis-server")
	if _, err := os.Stat(path); err != nil {
		if os.Link(filepath.Join(dir, "usr/bin/redis-check-rdb"), path) != nil {
			return program{}, false
		}
	}
	p := program{path: path}
	for _, l := range slices.Backward(libraries) {
		p.env = append(p.env, "LD_LIBRARY_PATH="+l)
	}
	check := exec.Command(path, "--version")
	check.Env = append(os.Environ(), p.env...)
	return p, check.Run() == nil
}
