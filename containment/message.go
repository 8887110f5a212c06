package containment

import "time"

// How the daemon and the supervisor talk: JSON values on two pipes. The
// specification comes this way, not by argv or environment: those are readable by
// every process of the user, and have a size limit.

// wireVersion is the version of these messages. A supervisor of another program
// (Config.Supervisor) must speak the same one.
const wireVersion = 1

// What a supervisor inherits besides stdin, stdout and stderr of its own.
const (
	fdControl = 3 + iota // orders come in; its end ends the tree
	fdReport             // words go out
	fdStdin              // the leader's
	fdStdout
	fdStderr
)

// order is what the daemon tells the supervisor. The first one holds the
// specification; the end of the pipe means the same as Stop.
type order struct {
	Spec *specOrder `json:"spec,omitempty"`
	Stop bool       `json:"stop,omitempty"`
}

// specOrder is a Spec made ready. The words are bytes, since neither an argument
// nor a path needs to be UTF-8.
type specOrder struct {
	Path       []byte        `json:"path"`
	Argv       [][]byte      `json:"argv"`
	Dir        []byte        `json:"dir"`
	Env        [][]byte      `json:"env"`
	Grace      time.Duration `json:"grace"`
	DrainGrace time.Duration `json:"drain_grace"`
	GiveUp     time.Duration `json:"give_up"`
}

// word is what the supervisor tells the daemon.
type word struct {
	Kind wordKind `json:"kind"`
	// Version comes with saidReady.
	Version int `json:"version,omitempty"`
	// Who is the supervisor in saidReady, the leader in saidStarted.
	Who Identity `json:"who,omitzero"`
	// Stage and Errno come with saidFailed.
	Stage stage `json:"stage,omitempty"`
	Errno int   `json:"errno,omitempty"`
	// Exit comes with saidExited.
	Exit *Exit `json:"exit,omitempty"`
	// The rest comes with saidEmpty and saidStuck.
	Killed    int           `json:"killed,omitempty"`
	Survivors []int         `json:"survivors,omitempty"`
	Took      time.Duration `json:"took,omitempty"`
}

type wordKind string

const (
	saidReady   wordKind = "ready"   // this is a supervisor; nothing runs yet
	saidStarted wordKind = "started" // the leader runs
	saidFailed  wordKind = "failed"  // the leader was not started; nothing runs
	saidExited  wordKind = "exited"  // the leader has ended
	saidStuck   wordKind = "stuck"   // given up: survivors after GiveUp
	saidEmpty   wordKind = "empty"   // proven: nothing is left (also after stuck)
)

// stage is where a start failed.
type stage string

const (
	stageContain stage = "contain" // becoming the tree's reaper
	stageDir     stage = "dir"     // entering the working folder
	stageExec    stage = "exec"    // fork and exec
)

func toBytes(words []string) [][]byte {
	out := make([][]byte, len(words))
	for i, w := range words {
		out[i] = []byte(w)
	}
	return out
}

func toStrings(words [][]byte) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}
