package memory

import (
	"sync"
	"testing"

	"github.com/stepwell/stepwell/store/storetest"
)

func TestStore(t *testing.T) {
	var mu sync.Mutex
	places := map[string]*Store{}
	storetest.Run(t, func(_ *testing.T, place string) storetest.Store {
		mu.Lock()
		defer mu.Unlock()
		if places[place] == nil {
			places[place] = New(nil)
		}
		return places[place]
	})
}
