package deploy

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepwell/stepwell/tooltest"
)

// here is this machine in the names of files, and its line of `stepwell --version` begins with this.
var (
	here    = "linux_" + runtime.GOARCH
	version = "stepwell v" + released + " "
)

// first starts the installed program in an empty folder: its version, a template, its first pipeline.
func first(t *testing.T, env []string, program ...string) {
	t.Helper()
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		args = append(program, args...)
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir, cmd.Env = dir, append([]string{"HOME=" + dir}, env...)
		return say(t, cmd)
	}
	if said := run("--version"); !strings.HasPrefix(said, version) {
		t.Errorf("version: %s", said)
	}
	run("init", "hello")
	if said := run("run", "-o", "json", "hello.stepwell.yaml"); !strings.Contains(said, `"greeting":"Hello, world!"`) {
		t.Errorf("run: %s", said)
	}
}

// install is install.sh with nothing but the variables in env.
func (p *published) install(t *testing.T, env []string, args ...string) (said string, err error) {
	t.Helper()
	script := filepath.Join(p.dir, "install.sh")
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{script}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + cmd.Dir, "STEPWELL_RELEASES=" + p.url}, env...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// testInstall: install.sh installs the latest or the named version below a folder, checks the signature where cosign is, and it
// is seconds until the first pipeline has completed.
func (p *published) testInstall(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "a new folder")
	began := time.Now()
	said, err := p.install(t, nil, "--prefix", prefix)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	first(t, nil, filepath.Join(prefix, "bin/stepwell"))
	took := time.Since(began)
	t.Logf("install.sh to the end of the first pipeline: %v", took.Round(10*time.Millisecond))
	if took > time.Minute { // five seconds on a machine that does nothing else
		t.Errorf("the first pipeline has completed after %v", took)
	}
	for _, name := range []string{"share/man/man1/stepwell.1.gz", "share/bash-completion/completions/stepwell", "share/zsh/site-functions/_stepwell", "share/fish/vendor_completions.d/stepwell.fish"} {
		if info, err := os.Stat(filepath.Join(prefix, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.Contains(said, "is not on PATH") {
		t.Errorf("nothing of PATH: %s", said)
	}
	signed := []string{"PATH=/usr/bin:/bin:" + p.tools, "STEPWELL_COSIGN_KEY=" + p.key, "STEPWELL_VERSION=v" + released, "STEPWELL_PREFIX=" + prefix}
	if said, err := p.install(t, signed); err != nil || !strings.Contains(said, "the signature is right") {
		t.Errorf("again, with cosign: %v\n%s", err, said)
	}
	first(t, nil, filepath.Join(prefix, "bin/stepwell"))
	left, err := os.ReadDir(filepath.Join(prefix, "bin"))
	if err != nil || len(left) != 1 {
		t.Errorf("beside the program: %v, %v", left, err)
	}
}

// testInstallRefuses: what is not as it was built is not installed, and what is there stays.
func (p *published) testInstallRefuses(t *testing.T) {
	prefix := t.TempDir()
	program := filepath.Join(prefix, "bin/stepwell")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("before"), 0o755); err != nil {
		t.Fatal(err)
	}
	signed := []string{"PATH=/usr/bin:/bin:" + p.tools, "STEPWELL_COSIGN_KEY=" + p.key}
	for name, c := range map[string]struct {
		damaged string
		env     []string
		args    []string
		why     string
	}{
		"a changed archive":     {damaged: filepath.Base(p.file(here + ".tar.gz")), why: "is not what checksums.txt names"},
		"changed sums":          {damaged: "checksums.txt", env: signed, why: "the signature of checksums.txt is wrong"},
		"a key without cosign":  {env: []string{"STEPWELL_COSIGN_KEY=" + p.key}, why: "cosign is missing"},
		"plain HTTP":            {env: []string{"STEPWELL_RELEASES=http://releases.example.org"}, why: "is plain HTTP"},
		"plain HTTP, disguised": {env: []string{"STEPWELL_RELEASES=http://127.0.0.1@releases.example.org"}, why: "must not hold a user"},
		"another protocol":      {env: []string{"STEPWELL_RELEASES=ftp://releases.example.org"}, why: "it must begin with https://"},
		"no such version":       {args: []string{"--version", "0.0.1"}, why: "does the version exist?"},
		"no version":            {args: []string{"--version=../../x"}, why: "is not a version"},
		"a flag without value":  {args: []string{"--version"}, why: "--version needs a value"},
		"an unknown flag":       {args: []string{"--verison", "1"}, why: "unknown argument --verison"},
		"a file in the way":     {args: []string{"--prefix", program}, why: "choose a directory that you may write to"},
	} {
		p.damaged.Store(c.damaged)
		said, err := p.install(t, append(c.env, "STEPWELL_PREFIX="+prefix), c.args...)
		var failed *exec.ExitError
		if !errors.As(err, &failed) || failed.ExitCode() != 1 || !strings.Contains(said, c.why) {
			t.Errorf("%s: %v, and not %q\n%s", name, err, c.why, said)
		}
		if text, err := os.ReadFile(program); err != nil || string(text) != "before" {
			t.Errorf("%s: the program was touched: %v", name, err)
		}
	}
	p.damaged.Store("")
}

// debian is a small Debian with rpm, as a folder and as what runs a command there. Its archive is kept in the user's cache.
func debian(t *testing.T) (root string, run func(args ...string) string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("changing the root folder needs root")
	}
	const purpose = "the packages are not installed"
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(cache, "stepwell-test-tools", "debian-trixie-rpm.tar")
	if _, err := os.Stat(archive); err != nil {
		if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
			t.Fatal(err)
		}
		part := archive + ".part"
		say(t, exec.CommandContext(t.Context(), tooltest.Program(t, purpose, "mmdebstrap"), "--quiet", "--variant=minbase", "--include=rpm", "--format=tar", "trixie", part))
		if err := os.Rename(part, archive); err != nil {
			t.Fatal(err)
		}
	}
	root = t.TempDir()
	say(t, exec.CommandContext(t.Context(), "tar", "--numeric-owner", "-xf", archive, "-C", root))
	return root, func(args ...string) string {
		t.Helper()
		return say(t, exec.CommandContext(t.Context(), "chroot", append([]string{root, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, args...)...))
	}
}

// packaged holds an installed package to what the units need.
func packaged(t *testing.T, root string, run func(args ...string) string) {
	t.Helper()
	for _, name := range []string{"usr/lib/systemd/system/stepwell.service", "usr/lib/systemd/system/stepwell-worker.service", "usr/share/man/man1/stepwell.1.gz", "usr/share/bash-completion/completions/stepwell", "etc/stepwell/server.env", "usr/share/doc/stepwell/copyright"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	if info, err := os.Stat(filepath.Join(root, "etc/stepwell/master.key")); err != nil || info.Mode().Perm() != 0o600 || info.Size() != 45 {
		t.Errorf("the master key: %v, %v", info, err)
	}
	if said := run("getent", "passwd", "stepwell"); !strings.Contains(said, ":/var/lib/stepwell:/usr/sbin/nologin") {
		t.Errorf("the user: %s", said)
	}
	if said := run("stepwell", "--version"); !strings.HasPrefix(said, version) {
		t.Errorf("version: %s", said)
	}
	run("install", "-d", "-o", "stepwell", "/tmp/first")
	const pipeline = "cd /tmp/first && stepwell init hello && stepwell run -o json hello.stepwell.yaml"
	if said := run("setpriv", "--reuid=stepwell", "--regid=stepwell", "--clear-groups", "sh", "-c", pipeline); !strings.Contains(said, "Hello, world!") {
		t.Errorf("run: %s", said)
	}
}

// configured changes a configuration file and returns what says whether that and the key are still there.
func configured(t *testing.T, root string) (kept func(when string)) {
	t.Helper()
	settings, key := filepath.Join(root, "etc/stepwell/server.env"), filepath.Join(root, "etc/stepwell/master.key")
	if err := os.WriteFile(settings, []byte("STEPWELL_LISTEN=127.0.0.1:9000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := digest(t, key)
	return func(when string) {
		t.Helper()
		if text, err := os.ReadFile(settings); err != nil || string(text) != "STEPWELL_LISTEN=127.0.0.1:9000\n" {
			t.Errorf("%s: the variables are %q, %v", when, text, err)
		}
		if digest(t, key) != before {
			t.Errorf("%s: the key is another one", when)
		}
	}
}

// testDeb: the package installs, upgrades without touching configuration and key, and leaves these when it is removed.
func (p *published) testDeb(t *testing.T) {
	root, run := debian(t)
	say(t, exec.CommandContext(t.Context(), "cp", p.file(here+".deb"), filepath.Join(root, "tmp/stepwell.deb")))
	if said := run("dpkg", "-i", "/tmp/stepwell.deb"); !strings.Contains(said, "Start the server") {
		t.Errorf("installing says %s", said)
	}
	packaged(t, root, run)
	kept := configured(t, root)

	files := filepath.Join(t.TempDir(), "deb")
	say(t, exec.CommandContext(t.Context(), "dpkg-deb", "-R", p.file(here+".deb"), files))
	say(t, exec.CommandContext(t.Context(), "sed", "-i", "s/^Version: .*/Version: "+released+"+next/", filepath.Join(files, "DEBIAN/control")))
	say(t, exec.CommandContext(t.Context(), "dpkg-deb", "-Znone", "-b", files, filepath.Join(root, "tmp/next.deb")))
	if said := run("dpkg", "-i", "/tmp/next.deb"); !strings.Contains(said, "over ("+released+")") || strings.Contains(said, "Start the server") {
		t.Errorf("upgrading says %s", said)
	}
	kept("upgraded")
	run("dpkg", "--remove", "stepwell")
	kept("removed")
	run("dpkg", "--purge", "stepwell")
	gone(t, root, "usr/bin/stepwell", "usr/lib/systemd/system/stepwell.service", "etc/stepwell/server.env")
	if _, err := os.Stat(filepath.Join(root, "etc/stepwell/master.key")); err != nil {
		t.Error("purged: ", err)
	}
}

// testRPM is testDeb with rpm, whose dependencies Debian does not know. One of rpm's plugins wants the root folder to be a mount.
func (p *published) testRPM(t *testing.T) {
	root, run := debian(t)
	say(t, exec.CommandContext(t.Context(), "cp", p.file(here+".rpm"), filepath.Join(root, "tmp/stepwell.rpm")))
	if said := run("rpm", "-i", "--noplugins", "--nodeps", "/tmp/stepwell.rpm"); !strings.Contains(said, "Start the server") {
		t.Errorf("installing says %s", said)
	}
	if said := run("rpm", "-q", "--requires", "stepwell"); !strings.Contains(said, "shadow-utils") {
		t.Errorf("it needs %s", said)
	}
	packaged(t, root, run)
	kept := configured(t, root)
	if said := run("rpm", "-U", "--noplugins", "--nodeps", "--force", "/tmp/stepwell.rpm"); strings.Contains(said, "Start the server") {
		t.Errorf("upgrading says %s", said)
	}
	kept("upgraded")
	run("rpm", "-e", "--noplugins", "--nodeps", "stepwell")
	gone(t, root, "usr/bin/stepwell", "usr/lib/systemd/system/stepwell.service")
	if _, err := os.Stat(filepath.Join(root, "etc/stepwell/master.key")); err != nil {
		t.Error("removed: ", err)
	}
}

func gone(t *testing.T, root string, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

// testNPM: npm takes the package of this system alone and runs no script; the program has the arguments, exit code and signals
// of its launcher, also by npx.
func (p *published) testNPM(t *testing.T) {
	const purpose = "the npm packages are not installed"
	npm, node := tooltest.Program(t, purpose, "npm"), tooltest.Program(t, purpose, "node")
	dir := t.TempDir()
	env := []string{"PATH=" + filepath.Dir(node) + ":/usr/bin:/bin", "HOME=" + dir, "npm_config_cache=" + filepath.Join(dir, "cache"), "npm_config_registry=" + p.npm,
		"npm_config_ignore_scripts=true", "npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false"}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, env
		return cmd
	}
	say(t, command(npm, "install", "--prefix", dir, "stepwell"))
	installed, err := filepath.Glob(filepath.Join(dir, "node_modules/@stepwell/*"))
	platform := map[string]string{"amd64": "linux-x64", "arm64": "linux-arm64"}[runtime.GOARCH]
	if err != nil || len(installed) != 1 || filepath.Base(installed[0]) != platform {
		t.Errorf("installed are %v, %v", installed, err)
	}
	launcher := filepath.Join(dir, "node_modules/.bin/stepwell")
	first(t, env, launcher)
	var failed *exec.ExitError
	if said, err := command(launcher, "run", "missing.yaml").CombinedOutput(); !errors.As(err, &failed) || failed.ExitCode() != 2 {
		t.Errorf("a missing file: %v\n%s", err, said)
	}
	if said := say(t, command(npm, "exec", "--yes", "--prefix", t.TempDir(), "--", "stepwell", "--version")); !strings.Contains(said, version) {
		t.Errorf("npx: %s", said)
	}

	pipe, waiting, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	serving := command(launcher, "serve", "--listen", "127.0.0.1:0")
	serving.Stdout, serving.Stderr = waiting, waiting
	if err := serving.Start(); err != nil {
		t.Fatal(err)
	}
	if err := waiting.Close(); err != nil {
		t.Fatal(err)
	}
	if err := pipe.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := pipe.Read(make([]byte, 1)); err != nil {
		t.Fatal("the server says nothing: ", err)
	}
	if err := serving.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := pipe.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for buffer := make([]byte, 4096); err == nil; { // to the end: neither launcher nor server has the pipe any more
		_, err = pipe.Read(buffer)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the server continues after SIGTERM to its launcher")
	}
	if err := serving.Wait(); err != nil {
		t.Errorf("a stopped server: %v", err)
	}
}

// testHomebrew: the formula is Ruby, and what it says to do installs the archive that it names, with its sum.
func (p *published) testHomebrew(t *testing.T) {
	ruby := tooltest.Program(t, "the formula is not evaluated", "ruby")
	formula := filepath.Join(p.dir, "stepwell.rb")
	say(t, exec.CommandContext(t.Context(), ruby, "-wc", formula))
	prefix := t.TempDir()
	say(t, exec.CommandContext(t.Context(), ruby, "testdata/brew.rb", formula, strings.TrimSuffix(p.url, "/releases"), prefix))
	first(t, nil, filepath.Join(prefix, "bin/stepwell"))
	for _, name := range []string{"share/man/man1/stepwell.1.gz", "etc/bash_completion.d/stepwell", "share/zsh/site-functions/_stepwell", "share/fish/vendor_completions.d/stepwell.fish"} {
		if _, err := os.Stat(filepath.Join(prefix, name)); err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(formula)
	if err != nil {
		t.Fatal(err)
	}
	for _, platform := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"} {
		if name := p.file(platform + ".tar.gz"); !strings.Contains(string(text), filepath.Base(name)+"\"\n      sha256 \""+digest(t, name)+`"`) {
			t.Errorf("the formula has another %s:\n%s", platform, text)
		}
	}
	p.damaged.Store(filepath.Base(p.file(here + ".tar.gz")))
	defer p.damaged.Store("")
	if said, err := exec.CommandContext(t.Context(), ruby, "testdata/brew.rb", formula, strings.TrimSuffix(p.url, "/releases"), t.TempDir()).CombinedOutput(); err == nil {
		t.Errorf("a changed archive is installed: %s", said)
	}
}

// testReleasedImage: the archive of the image is a layout, whose program runs a pipeline.
func (p *published) testReleasedImage(t *testing.T) {
	layout := t.TempDir()
	say(t, exec.CommandContext(t.Context(), "tar", "-xf", p.file("image_"+here+".tar"), "-C", layout))
	image := unpack(t, layout, filepath.Join(t.TempDir(), "root"))
	image.check(t)
	if said := image.run(t, "--version"); !strings.HasPrefix(said, version) {
		t.Errorf("version: %s", said)
	}
	image.put(t, "hello.yaml", hello)
	if said := image.run(t, "run", "-o", "json", "hello.yaml"); !strings.Contains(said, `"said":"a-b"`) {
		t.Errorf("run: %s", said)
	}
}
