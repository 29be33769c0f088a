package worker

import (
	"encoding/json"
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/expr"
)

// Limits in bytes of a handler's results. Outputs above inlineOutput travel by reference; beyond the other limits the
// step fails, so that commits can be stored and the memory is not exhausted.
const (
	inlineOutput = 64 << 10
	MaxOutput    = 16 << 20 // of outputs
	maxMemo      = 16 << 20 // of a value of Record
	maxSpawn     = 32 << 20 // of the steps of one call of Spawn, together
	maxState     = 64 << 10 // of the state of a wait: every poll records it
	maxMessage   = 16 << 10 // of a failure
	maxNote      = 4 << 10  // of the text of a progress report
	maxMemoKey   = 1 << 10
)

// spawnOverhead is the size of a spawned step without its texts and parameters.
const spawnOverhead = 200

// size is the least size of a value as JSON; it stops counting beyond most. Values can be refused before they are
// copied.
func size(v any, most int) int {
	switch v := v.(type) {
	case string:
		return len(v) + 2
	case json.RawMessage:
		return len(v)
	case []byte:
		return len(v)
	case expr.Raw:
		return len(v)
	case map[string]any:
		n := 2
		for key, value := range v {
			if n += len(key) + 4 + size(value, most-n); n > most {
				break
			}
		}
		return n
	case []any:
		n := 2
		for _, value := range v {
			if n += 1 + size(value, most-n); n > most {
				break
			}
		}
		return n
	}
	return 1
}

// tooLarge is the permanent error for a handler's result above a limit.
func tooLarge(what string, limit int, hint string) error {
	return action.Fail(stepwell.Errorf(stepwell.CodeLimit, hint, "%s more than %s", what, sizeText(limit)))
}

func sizeText(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// margin is the length behind the end of a text that is searched for secrets reaching over it.
const margin = 64 << 10

// text is at most n bytes of a text that is recorded or shown, without secrets. No more of it is copied than that takes.
func (a *attempt) text(text string, n int) string {
	if len(text) > n+margin {
		text = text[:n+margin]
	}
	return shorten(a.hide(text), n)
}
