package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// entry is a file of an archive.
type entry struct {
	name string
	mode int64
	text []byte
}

// writeTar writes an archive into the release, compressed if its name ends in gz: of the same files always the same bytes.
func (r *release) writeTar(name string, files []entry) error {
	var out bytes.Buffer
	var to io.Writer = &out
	var zip *gzip.Writer
	if strings.HasSuffix(name, "gz") {
		zip = gzip.NewWriter(&out)
		to = zip
	}
	archive := tar.NewWriter(to)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.text)), ModTime: r.at, Format: tar.FormatPAX}
		if err := archive.WriteHeader(h); err != nil {
			return err
		}
		if _, err := archive.Write(f.text); err != nil {
			return err
		}
	}
	err := archive.Close()
	if zip != nil {
		err = errors.Join(err, zip.Close())
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name), out.Bytes(), 0o644)
}

// writeImages packs the OCI layouts DIST/images/NAME_linux_ARCH that deploy/image has built, for `docker load` and its like.
func (r *release) writeImages() error {
	layouts, err := filepath.Glob(filepath.Join(r.dist, "images", "*", "stepwell*"))
	if err != nil {
		return err
	}
	for _, dir := range layouts {
		var files []entry
		err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			inside, err := filepath.Rel(dir, name)
			files = append(files, entry{filepath.ToSlash(inside), 0o644, text})
			return err
		})
		if err != nil {
			return err
		}
		variant := strings.TrimPrefix(filepath.Base(dir), "stepwell") // "" or "-full"
		if err := r.writeTar("stepwell_"+r.Version+"_image"+variant+"_linux_"+filepath.Base(filepath.Dir(dir))+".tar", files); err != nil {
			return err
		}
	}
	return nil
}
