//go:build !linux

package media

import "os"

// dropCache does nothing here: reads may come from the system's memory.
func dropCache(*os.File) {}
