package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stepwell/stepwell/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, place string) storetest.Store {
		s, err := Open(t.Context(), Options{Path: filepath.Join(place, "store.db")})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
