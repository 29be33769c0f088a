package secret

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stepwell/stepwell"
)

const maxKeyFile = 64 << 10

// KeyOptions say where the master keys come from.
type KeyOptions struct {
	// Text holds them (ParseKeys), as an environment variable does. Defaults to File.
	Text string
	// File holds them. Defaults to Generated.
	File string
	// Generated is a file of keys next to the database, created with a new key if it does not exist.
	Generated string
}

// ErrNoKey is the error of a keyring for which nothing is named.
var ErrNoKey error = &stepwell.Error{Code: stepwell.CodeInvalid, Message: "no master key is named, and the database is shared by processes that all have to have the same one",
	Hint: "set STEPWELL_SECRETS_KEY, or name a file: secrets.key_file in stepwell.yaml; `openssl rand -base64 32` makes one"}

// OpenKeyring reads the master keys. CodeInvalid, CodeNotFound; a file that others may read is refused.
func OpenKeyring(o KeyOptions) (*Keyring, error) {
	switch {
	case o.Text != "":
		return ParseKeys(o.Text)
	case o.File != "":
		return readKeys(o.File)
	case o.Generated == "":
		return nil, ErrNoKey
	}
	ring, err := readKeys(o.Generated)
	if stepwell.CodeOf(err) != stepwell.CodeNotFound {
		return ring, err
	}
	if err := generate(o.Generated); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("master key: %w", err)
	}
	return readKeys(o.Generated)
}

// LateKeyring is OpenKeyring for uses that may need no key: files are read, or created, on first need, and their errors
// appear then.
func LateKeyring(o KeyOptions) (*Keyring, error) {
	if o.Text != "" {
		return ParseKeys(o.Text)
	}
	return &Keyring{read: func() (*Keyring, error) { return OpenKeyring(o) }}, nil
}

func readKeys(path string) (_ *Keyring, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "the file with the master key does not exist: " + path}
	}
	if err != nil {
		return nil, fmt.Errorf("master key: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("master key: %w", err)
	}
	if exposed(info) {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("the file with the master key is open to others (%s): %s", info.Mode().Perm(), path),
			Hint: "chmod 600 " + path}
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, fmt.Errorf("master key: %w", err)
	}
	return ParseKeys(string(raw))
}

// generate makes a file with a new key: whole or not at all, and never in place of another.
func generate(path string) (err error) {
	var key [keySize]byte
	rand.Read(key[:])
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, werr := fmt.Fprintf(f, "# Master key of Stepwell's secrets. Without it they cannot be read: keep a copy, apart from the database.\n%s\n",
		base64.StdEncoding.EncodeToString(key[:]))
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path) // fails when there is one by now
}
