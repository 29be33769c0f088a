package deploy

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stepwell/stepwell/tooltest"
)

// hello is what a program without any other program can run: zones are known, templates work, a file is written.
const hello = `name: hello
steps:
  - {id: wait, action: util.wait_until, params: {until_time: "2020-07-01T12:00:00", timezone: Europe/Berlin}}
  - {id: greet, action: util.transform, depends_on: [wait], params: {input: [a, b], expression: "{{ input | join('-') }}"}}
outputs: {said: "{{ steps.greet.outputs.result }}"}
`

// TestImage: the image from nothing has a program, its user and the authorities, starts the program as that user, and is the
// same when it is made again. The program is another one here: Stepwell would have to be built without cgo.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the builder")
	}
	out := t.TempDir()
	builder := tooltest.Path(t, tooltest.Image)
	first, second := filepath.Join(out, "first"), filepath.Join(out, "second")
	for _, dir := range []string{first, second, second} {
		buildImages(t, dir, "-binary", builder)
	}
	if a, b := manifest(t, filepath.Join(first, "stepwell")), manifest(t, filepath.Join(second, "stepwell")); a != b {
		t.Errorf("the image of the same program is %s, then %s", a, b)
	}
	image := unpack(t, filepath.Join(first, "stepwell"), filepath.Join(out, "root"))
	image.check(t)
	names, err := filepath.Glob(filepath.Join(image.root, "usr/*/*"))
	if err != nil || len(names) != 1 || filepath.Base(names[0]) != "bin" {
		t.Errorf("beside the program there are %v, %v", names, err)
	}
	pem, err := os.ReadFile(filepath.Join(image.root, "etc/ssl/certs/ca-certificates.crt"))
	if n := strings.Count(string(pem), "BEGIN CERTIFICATE"); err != nil || n < 80 || !x509.NewCertPool().AppendCertsFromPEM(pem) {
		t.Errorf("%d authorities, %v", n, err)
	}
	if said, err := image.command(t, append(slices.Clone(image.config.Config.Entrypoint), "-h")...).CombinedOutput(); err != nil || !strings.Contains(string(said), "-suite") {
		t.Errorf("%v\n%s", err, said)
	}
	mine := filepath.Join(out, "mine/stepwell")
	if err := os.MkdirAll(filepath.Join(mine, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.CommandContext(t.Context(), builder, "-o", filepath.Dir(mine), "-binary", builder).CombinedOutput(); err == nil {
		t.Errorf("a folder of other things is replaced: %s", said)
	}
}

// imagesWanted leaves out what builds whole images, in minutes, unless STEPWELL_TEST_IMAGES says so, as .ci/run does.
func imagesWanted(t *testing.T) {
	t.Helper()
	if os.Getenv("STEPWELL_TEST_IMAGES") == "" {
		t.Skip("STEPWELL_TEST_IMAGES=1 builds the images")
	}
}

func buildImages(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tooltest.Path(t, tooltest.Image), append([]string{"-o", dir, "-source", tooltest.Root(t)}, args...)...)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
}

// TestImageRuns: the image from nothing runs a pipeline, without any other program.
func TestImageRuns(t *testing.T) {
	imagesWanted(t)
	out := t.TempDir()
	buildImages(t, out)
	image := unpack(t, filepath.Join(out, "stepwell"), filepath.Join(out, "root"))
	image.check(t)
	if said := image.run(t, "version"); !strings.HasPrefix(said, "stepwell ") {
		t.Errorf("version: %s", said)
	}
	image.put(t, "hello.yaml", hello)
	if said := image.run(t, "run", "-o", "json", "hello.yaml"); !strings.Contains(said, `"said":"a-b"`) {
		t.Errorf("run: %s", said)
	}
}

// TestFullImage: the image on Debian has what pipelines call, and nothing of the machine that built it.
func TestFullImage(t *testing.T) {
	imagesWanted(t)
	if os.Getuid() != 0 {
		t.Skip("changing the root folder needs root")
	}
	out := t.TempDir()
	buildImages(t, out, "-full")
	image := unpack(t, filepath.Join(out, "stepwell-full"), filepath.Join(out, "root"))
	image.check(t)
	for _, args := range [][]string{{"/usr/bin/git", "--version"}, {"/usr/bin/ffmpeg", "-version"}, {"/usr/bin/python3", "-c", "import json, sqlite3, ssl, urllib.request"}, {"/bin/sh", "-c", "id -un"}} {
		if said, err := image.command(t, args...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, said)
		}
	}
	text, err := os.ReadFile(filepath.Join(tooltest.Root(t), "examples/quickstart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	image.put(t, "quickstart.yaml", string(text))
	if said := image.run(t, "run", "-o", "json", "quickstart.yaml"); !strings.Contains(said, "Berlin has 6 letters") {
		t.Errorf("run: %s", said)
	}
	here, err := os.ReadFile("/etc/resolv.conf")
	if there, missing := os.ReadFile(filepath.Join(image.root, "etc/resolv.conf")); err == nil && missing == nil && len(here) > 0 && string(there) == string(here) {
		t.Error("the image names the servers of the machine that built it")
	}
}

// unpacked is an image in a folder.
type unpacked struct {
	root   string
	config struct {
		Architecture string
		Config       struct {
			User, WorkingDir string
			Entrypoint, Cmd  []string
			Env              []string
		}
	}
}

// check holds the image to what the deployment relies on.
func (u *unpacked) check(t *testing.T) {
	t.Helper()
	c := u.config.Config
	if c.User != "65532:65532" || c.WorkingDir != "/data" || !slices.Equal(c.Entrypoint, []string{"/usr/local/bin/stepwell"}) || !slices.Equal(c.Cmd, []string{"serve"}) || u.config.Architecture != runtime.GOARCH {
		t.Errorf("the image is %+v", u.config)
	}
	info, err := os.Stat(filepath.Join(u.root, "data"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("/data: %v, %v", info, err)
	}
	if s := info.Sys().(*syscall.Stat_t); os.Getuid() == 0 && s.Uid != 65532 {
		t.Errorf("/data belongs to %d", s.Uid)
	}
}

// put writes a file into /data.
func (u *unpacked) put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(u.root, "data", name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs Stepwell as a container does.
func (u *unpacked) run(t *testing.T, args ...string) string {
	t.Helper()
	var failed strings.Builder
	cmd := u.command(t, append(slices.Clone(u.config.Config.Entrypoint), args...)...)
	cmd.Stderr = &failed
	said, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, said, &failed)
	}
	return string(said)
}

// command is a command with the image as the root folder, as the image's user. Who may not change the root folder runs the
// program of the folder.
func (u *unpacked) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = u.config.Config.Env
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: u.root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		cmd.Dir = u.config.Config.WorkingDir
		return cmd
	}
	cmd.Path, cmd.Err, cmd.Dir = filepath.Join(u.root, args[0]), nil, filepath.Join(u.root, u.config.Config.WorkingDir)
	cmd.Env = []string{"HOME=" + cmd.Dir, "STEPWELL_DATA=" + cmd.Dir}
	return cmd
}

// blob is a file of a layout, whose content must be what its name says.
func blob(t *testing.T, layout, digest string) string {
	t.Helper()
	name := filepath.Join(layout, "blobs", strings.Replace(digest, ":", "/", 1))
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil || "sha256:"+hex.EncodeToString(sum.Sum(nil)) != digest {
		t.Fatalf("%s is not what its name says: %v", name, err)
	}
	return name
}

func decode(t *testing.T, name string, to any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// manifest is the digest of the only image of a layout.
func manifest(t *testing.T, layout string) string {
	t.Helper()
	var index struct{ Manifests []struct{ Digest string } }
	if decode(t, filepath.Join(layout, "index.json"), &index); len(index.Manifests) != 1 {
		t.Fatalf("%s has %d images", layout, len(index.Manifests))
	}
	return index.Manifests[0].Digest
}

// unpack lays the layers of an image over each other.
func unpack(t *testing.T, layout, root string) *unpacked {
	t.Helper()
	u := &unpacked{root: root}
	var m struct {
		Config struct{ Digest string }
		Layers []struct{ Digest, MediaType string }
	}
	decode(t, blob(t, layout, manifest(t, layout)), &m)
	decode(t, blob(t, layout, m.Config.Digest), &u.config)
	for _, l := range m.Layers {
		if l.MediaType != "application/vnd.oci.image.layer.v1.tar+gzip" {
			t.Fatalf("a layer is %s", l.MediaType)
		}
		if err := u.layer(blob(t, layout, l.Digest)); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

func (u *unpacked) layer(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = u.entry(h, r)
		}
		if err != nil {
			return err
		}
	}
}

func (u *unpacked) entry(h *tar.Header, r io.Reader) error {
	name := filepath.Join(u.root, h.Name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := os.MkdirAll(name, 0o755); err != nil {
			return err
		}
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return os.Link(filepath.Join(u.root, h.Linkname), name)
	case tar.TypeReg:
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	case tar.TypeChar: // a container has devices of its own; here they are Debian's
		if err := unix.Mknod(name, unix.S_IFCHR, int(unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor)))); err != nil {
			return err
		}
	default:
		return nil
	}
	if os.Getuid() == 0 {
		if err := os.Chown(name, h.Uid, h.Gid); err != nil {
			return err
		}
	}
	return os.Chmod(name, h.FileInfo().Mode())
}
