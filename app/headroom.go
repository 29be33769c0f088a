package app

import (
	"os"
	"sync"
)

// headroomBytes is how much more than its data a process may allocate between two collections of garbage, in bytes.
const headroomBytes = 32 << 20

// headroom is never touched, so that it takes addresses and no memory.
//
//lint:ignore U1000 it is there to be kept, not to be read
var headroom []byte

// KeepHeadroom lets the garbage collector of a process that is one of a fleet run less often while its data are few, at the
// price of at most twice headroomBytes of memory. GOGC and GOMEMLIMIT in the environment decide instead. It is called before
// the process works.
func KeepHeadroom() { keepHeadroom() }

var keepHeadroom = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		headroom = make([]byte, headroomBytes)
	}
})
