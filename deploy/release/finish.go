package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// release is what goreleaser has built.
type release struct {
	Tag     string    `json:"tag"`
	Version string    `json:"version"`
	Commit  string    `json:"commit"`
	Date    time.Time `json:"date"`

	dist, out string
	at        time.Time         // of the commit
	sums      map[string]string // of the files in checksums.txt
	names     []string          // of these, in order
}

// finish collects what is to be published in DIST/release and adds npm packages, formula, images and provenance.
func finish(dist string) error {
	r := &release{dist: dist, out: filepath.Join(dist, "release"), sums: map[string]string{}}
	text, err := os.ReadFile(filepath.Join(dist, "metadata.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, r); err != nil {
		return fmt.Errorf("metadata.json: %w", err)
	}
	if err := r.readSums(); err != nil {
		return err
	}
	if r.at, err = r.committed(); err != nil {
		return err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if err := r.collect(); err != nil {
		return err
	}
	for _, add := range []func() error{r.writePackages, r.writeFormula, r.writeImages} {
		if err := add(); err != nil {
			return err
		}
	}
	return r.writeProvenance()
}

// committed is the date of the commit, which the archives have.
func (r *release) committed() (time.Time, error) {
	programs, err := filepath.Glob(filepath.Join(r.dist, "*_linux_amd64*", "stepwell"))
	if err != nil || len(programs) == 0 {
		return time.Time{}, fmt.Errorf("%s has no program for linux/amd64 (%w)", r.dist, err)
	}
	info, err := os.Stat(programs[0])
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime().UTC(), nil
}

func (r *release) readSums() error {
	f, err := os.Open(filepath.Join(r.dist, "checksums.txt"))
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || filepath.Base(name) != name {
			return fmt.Errorf("checksums.txt: %q is not a sum and a name", lines.Text())
		}
		r.sums[name] = sum
		r.names = append(r.names, name)
	}
	return lines.Err()
}

// collect links the files of checksums.txt, which must be what it says, and those about it.
func (r *release) collect() error {
	for _, name := range r.names {
		from := filepath.Join(r.dist, name)
		if _, err := os.Stat(from); os.IsNotExist(err) {
			from = filepath.Join("deploy/release", name) // install.sh
		}
		if sum, err := sumOf(from); err != nil || sum != r.sums[name] {
			return fmt.Errorf("%s is not what checksums.txt says: %s (%w)", from, sum, err)
		}
		if err := copyFile(from, filepath.Join(r.out, name)); err != nil {
			return err
		}
	}
	about, err := filepath.Glob(filepath.Join(r.dist, "checksums.txt*"))
	if err != nil {
		return err
	}
	extension := filepath.Join(r.dist, "stepwell_"+r.Version+"_vscode.vsix")
	if _, err := os.Stat(extension); err == nil { // a snapshot may go without it
		about = append(about, extension)
	}
	for _, from := range about {
		if err := copyFile(from, filepath.Join(r.out, filepath.Base(from))); err != nil {
			return err
		}
	}
	return nil
}

// writeProvenance names all files that are there by then.
func (r *release) writeProvenance() error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var subjects []subject
	for _, f := range files {
		sum, err := sumOf(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		subjects = append(subjects, subject{Name: f.Name(), Digest: map[string]string{"sha256": sum}})
	}
	text, err := r.provenance(subjects)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "provenance.intoto.json"), append(text, '\n'), 0o644)
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

func sumOf(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
