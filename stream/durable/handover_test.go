package durable_test

import (
	"testing"

	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/durable/durabletest"
)

func TestSharedFolder(t *testing.T) {
	durabletest.Run(t, func(t *testing.T) durable.Shared { return durable.NewSharedFolder(t.TempDir()) })
}
