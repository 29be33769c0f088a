package stream

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stepwell/stepwell"
)

// shared marks a path to which several streams of an execution append.
const shared = "*"

// claim keeps the streams of one execution from replacing each other's files. Each claim is a file in a folder beside the
// results of the segments.
func (s *segment) claim(n *node, path string, share bool) error {
	if !strings.Contains(path, "://") {
		if err := s.call.May(path); err != nil {
			return err
		}
	}
	sum := sha256.Sum256([]byte(path))
	dir := filepath.Join(s.runs, "claims")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, owner := filepath.Join(dir, hex.EncodeToString(sum[:12])), filepath.Base(s.resultBase())+"/"+n.step.ID
	if share {
		owner = shared
	}
	take := claimHere
	if s.handover != nil {
		take = s.claimShared
	}
	has, err := take(file, owner)
	if err != nil || has == owner || has == "" { // empty: cut off while it was claimed
		return err
	}
	return &Error{Type: ConfigurationError, Err: &stepwell.Error{Code: stepwell.CodeConflict, Message: path + " is written by another stream of this execution",
		Hint: "`write: append` or `write: upsert` lets them share it; else give each stream a place of its own: {{ collection.id }} behind a discovery, {{ item }} in a for_each, ${NAME} of a matrix, or {collection_id} in the path"}}
}

// claimHere makes a claim among the streams of this machine. It gives the owner of one that is there already.
func claimHere(file, owner string) (has string, err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.WriteString(owner)
		return owner, errors.Join(err, f.Close())
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	raw, err := os.ReadFile(file)
	return string(raw), err
}
