package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	programPath = "usr/local/bin/stepwell"
	dataFolder  = "/data"
	owner       = "65532:65532"
	ownerID     = 65532
	passwdLine  = "stepwell:x:65532:65532:Stepwell:/data:/usr/sbin/nologin\n"
	groupLine   = "stepwell:x:65532:\n"
)

// file is a file of a layer, or a folder where the text is nil.
type file struct {
	name  string
	mode  int64
	owner int
	text  []byte
}

var dataFile = file{name: "data", mode: 0o700, owner: ownerID}

// baseFiles are what the program needs where there is nothing. Zone data is in the program.
func baseFiles() []file {
	return []file{
		dataFile,
		{name: "etc", mode: 0o755},
		{name: "etc/group", mode: 0o644, text: []byte("root:x:0:\n" + groupLine)},
		{name: "etc/passwd", mode: 0o644, text: []byte("root:x:0:0:root:/:/usr/sbin/nologin\n" + passwdLine)},
		{name: "etc/ssl", mode: 0o755},
		{name: "etc/ssl/certs", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, text: authorities()},
		{name: "tmp", mode: 0o1777},
	}
}

// authorities are those that Mozilla trusts, from the Go project's module, and never those of the machine that builds. One
// that is trusted for a part of its certificates only cannot be written in this form and is left out.
func authorities() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer takes everything
		}
	}
	return all.Bytes()
}

// layer has the files in their order, all as old as the source.
func (b *build) layer(files []file) (v1.Layer, error) {
	var all bytes.Buffer
	w := tar.NewWriter(&all)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.text)), ModTime: b.at, Format: tar.FormatPAX}
		if f.text == nil {
			h.Typeflag, h.Name = tar.TypeDir, f.name+"/"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(all.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
}
