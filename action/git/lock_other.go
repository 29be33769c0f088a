//go:build !unix || aix || solaris

package git

import (
	"context"
	"errors"
	"os"
	"runtime"
)

func lock(context.Context, string) (*os.File, error) { return tryLock("") }

func tryLock(string) (*os.File, error) {
	return nil, errors.New("the cache of repositories does not work on " + runtime.GOOS)
}
