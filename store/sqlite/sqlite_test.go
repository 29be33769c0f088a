package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, place string) storetest.Store {
		path := filepath.Join(place, "store.db")
		s, err := Open(t.Context(), Options{Path: path})
		if stepwell.CodeOf(err) == stepwell.CodeConflict { // a copy
			if err := TakeOver(t.Context(), path, nil); err != nil {
				t.Fatal(err)
			}
			s, err = Open(t.Context(), Options{Path: path})
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
