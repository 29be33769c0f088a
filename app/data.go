package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stepwell/stepwell"
)

// DefaultData is the data directory when nothing else is said, in the working directory.
const DefaultData = ".stepwell"

// databaseFile is the database in a data directory. Names of files that belong to it begin with it.
const databaseFile = "stepwell.db"

// OldDatabase is where the database was before there was a data directory. One that exists is used.
const OldDatabase = databaseFile

// Database is the database file in a data directory.
func Database(data string) string { return filepath.Join(data, databaseFile) }

// IsFile reports whether a regular file has the name.
func IsFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// MakeData creates a data directory that only its owner may enter, with a .gitignore in it. An existing one is
// unchanged. Its parent must exist.
func MakeData(dir string) error {
	switch err := os.Mkdir(dir, 0o700); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("the directory %s, in which the data directory would be created, does not exist", filepath.Dir(dir)), Hint: "create it, or use another --data"}
	case err != nil:
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "create the data directory", Hint: "use another --data", Err: err}
	}
	return os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o600)
}

// fill fills in the clock and the paths of the data: files that belong to the database are next to the file itself, links
// resolved.
func (o *Options) fill() (err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	kind, place, err := findStore(o.DB)
	if err != nil {
		return err
	}
	if o.DB == "" || kind.resolve == nil {
		o.Data = cmp.Or(o.Data, DefaultData)
		if err := MakeData(o.Data); err != nil {
			return err
		}
		place = Database(o.Data)
	}
	if kind.resolve != nil {
		o.DB, err = kind.resolve(place)
	}
	return err
}

// beside is how the names of the files begin that belong to the database.
func (o *Options) beside() string {
	if kind, place, err := findStore(o.DB); err == nil && kind.resolve != nil && place != "" {
		return place
	}
	return Database(cmp.Or(o.Data, DefaultData))
}
