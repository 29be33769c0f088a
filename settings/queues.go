package settings

import (
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/queue/redisq"
)

// lists says which queues are offered in the lists of the Redis server at an address. CodeInvalid.
func (s *Serving) lists(url string) (o redisq.Options, err error) {
	via := s.Queues[queue.DefaultQueue].Via
	if via == "" && url != "" {
		via = "redis"
	}
	all := map[string]Queue{queue.DefaultQueue: s.Queues[queue.DefaultQueue]}
	for name, q := range s.Queues {
		all[name] = q
	}
	o.Queues = map[string]redisq.Queue{}
	for name, q := range all {
		switch {
		case q.Lists != 0 && q.Lists != 1 && q.Lists != 3:
			return o, stepwell.Invalid("1, or 3: above, at and below priority 0", "queues.%s.lists is %d", name, q.Lists)
		case q.Via == "redis" && url == "":
			return o, stepwell.Invalid("name it with --queue redis://host:6379, or queue: in the settings", "queues.%s.via is redis, and no Redis server is named", name)
		case q.Via == "nodes", q.Via == "" && via != "redis":
			o.Nodes = append(o.Nodes, name)
		case name == "high", name == "low", strings.HasSuffix(name, ":high"), strings.HasSuffix(name, ":low"):
			return o, stepwell.Invalid("choose another name", "queues.%s: its list would have the name of another queue's list of a priority", name)
		default:
			o.Queues[name] = redisq.Queue{Lists: q.Lists}
		}
	}
	if len(o.Queues) > 0 {
		o.URL = url
	}
	return o, nil
}
