// Command image builds Stepwell's container images as OCI layouts, folders that every container tool reads, without Docker:
//
//	go run . -o ../../dist          # dist/stepwell: from nothing, for this machine's processor
//	go run . -o ../../dist -full    # dist/stepwell-full as well: Debian with git, ffmpeg and python3
//
// The same source and SOURCE_DATE_EPOCH give the same bytes, as far as Debian's packages are the same.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// latest is the version without a name.
const latest = "latest"

// build is what the images are made of.
type build struct {
	source  string // the module's root
	binary  string // the program, "" to build it
	arch    string
	suite   string // of Debian
	version string
	at      time.Time // of everything in the images
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("image: ")
	b := build{}
	out := flag.String("o", "dist", "`folder` for the layouts")
	full := flag.Bool("full", false, "build stepwell-full as well; needs mmdebstrap and, for another processor than this machine's, its emulation")
	flag.StringVar(&b.source, "source", "../..", "`folder` of the module")
	flag.StringVar(&b.binary, "binary", "", "a stepwell that is built already, linked statically")
	flag.StringVar(&b.arch, "arch", runtime.GOARCH, "processor: amd64 or arm64")
	flag.StringVar(&b.suite, "suite", "trixie", "release of Debian")
	flag.StringVar(&b.version, "tag", latest, "name of the version; the full image is full, or VERSION-full")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := b.run(ctx, *out, *full); err != nil {
		log.Fatal(err)
	}
}

func (b *build) run(ctx context.Context, out string, full bool) error {
	if err := b.date(ctx); err != nil {
		return err
	}
	if b.binary == "" {
		dir, err := os.MkdirTemp("", "stepwell-image")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if b.binary, err = b.compile(ctx, dir); err != nil {
			return err
		}
	}
	base, err := b.layer(baseFiles())
	if err != nil {
		return err
	}
	text, err := os.ReadFile(b.binary)
	if err != nil {
		return err
	}
	program, err := b.layer([]file{{name: programPath, mode: 0o755, text: text}})
	if err != nil {
		return err
	}
	if err := b.write(filepath.Join(out, "stepwell"), b.version, base, program); err != nil || !full {
		return err
	}
	return b.writeFull(ctx, filepath.Join(out, "stepwell-full"), program)
}

// writeFull puts the program on Debian.
func (b *build) writeFull(ctx context.Context, dir string, program v1.Layer) error {
	root, err := b.debian(ctx)
	if err != nil {
		return err
	}
	data, err := b.layer([]file{dataFile})
	if err != nil {
		return err
	}
	tag := "full"
	if b.version != latest {
		tag = b.version + "-full"
	}
	return b.write(dir, tag, root, data, program)
}

// date is SOURCE_DATE_EPOCH or else that of the last commit: images of one commit are alike.
func (b *build) date(ctx context.Context) error {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		cmd := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct")
		cmd.Dir = b.source
		said, err := cmd.Output() // a source without its history is as old as the epoch
		if text = strings.TrimSpace(string(said)); err != nil || text == "" {
			text = "0"
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %q is not a number of seconds", text)
	}
	b.at = time.Unix(seconds, 0).UTC()
	return nil
}

// compile builds the program without cgo, so that it needs no library.
func (b *build) compile(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "stepwell")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./cmd/stepwell")
	cmd.Dir = b.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+b.arch, "GOWORK=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the program: %w\n%s", err, said)
	}
	return program, nil
}

// write makes a layout of one image; one that is there already is replaced.
func (b *build) write(dir, tag string, layers ...v1.Layer) error {
	image, err := b.image(layers)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "oci-layout")); err == nil {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	} else if left, err := os.ReadDir(dir); err == nil && len(left) > 0 {
		return fmt.Errorf("%s holds something else than an image", dir)
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.WriteImage(image); err != nil {
		return err
	}
	described, err := partial.Descriptor(image)
	if err != nil {
		return err
	}
	described.ArtifactType, described.Platform = "", &v1.Platform{OS: "linux", Architecture: b.arch}
	described.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": "stepwell:" + tag}
	if err := path.AppendDescriptor(*described); err != nil {
		return err
	}
	_, err = fmt.Println(dir, described.Digest)
	return err
}

// image says how the program is started, and has the layers.
func (b *build) image(layers []v1.Layer) (v1.Image, error) {
	at := v1.Time{Time: b.at}
	image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), &v1.ConfigFile{
		OS: "linux", Architecture: b.arch, Created: at, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: owner, WorkingDir: dataFolder, StopSignal: "SIGTERM", Entrypoint: []string{"/" + programPath}, Cmd: []string{"serve"},
			Env:          []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dataFolder, "STEPWELL_DATA=" + dataFolder, "STEPWELL_LISTEN=:8010"},
			ExposedPorts: map[string]struct{}{"8010/tcp": {}}, Volumes: map[string]struct{}{dataFolder: {}},
			Labels: map[string]string{"org.opencontainers.image.title": "stepwell", "org.opencontainers.image.licenses": "Apache-2.0"},
		},
	})
	if err != nil {
		return nil, err
	}
	adds := make([]mutate.Addendum, 0, len(layers))
	for _, l := range layers {
		adds = append(adds, mutate.Addendum{Layer: l, History: v1.History{Created: at, CreatedBy: "stepwell/deploy/image"}})
	}
	return mutate.Append(image, adds...)
}
