package acp

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// state is where a run stands.
type state int

const (
	stateIdle state = iota
	stateInitializing
	stateOpening
	statePrompting
	stateStopping
	stateEnded
)

var stateNames = [...]string{"idle", "initializing", "opening", "prompting", "stopping", "ended"}

func (s state) String() string { return stateNames[s] }

// machineEdges is every change of state there is.
var machineEdges = map[state][]state{
	stateIdle:         {stateInitializing},
	stateInitializing: {stateOpening, stateEnded},
	stateOpening:      {statePrompting, stateEnded},
	statePrompting:    {stateStopping, stateEnded},
	stateStopping:     {stateEnded},
}

// effectKind says what the machine wants done.
type effectKind int

const (
	effectWrite effectKind = iota // data to the agent
	effectEmit                    // data as an event
	effectTimer                   // wake the machine after wait, with its step
	effectAsk                     // ask about data (the question's params), under number
	effectNoise                   // data was no message
)

// effect is one thing to do. They are done in order.
type effect struct {
	kind effectKind
	data []byte
	wait time.Duration
	// number is the question's, or the step that a timer is for.
	number int
	// reply says that what is written answers the agent, which decides how many
	// of these there are.
	reply bool
}

// outcome is how a run ended: completed is the data of its run.completed, or
// failure says why not. Neither means that it was cancelled here.
type outcome struct {
	completed []byte
	failure   *Failure
}

// question is a permission request that was not answered yet.
type question struct {
	id      jsontext.Value
	options []permissionOption
}

// machine is one run's side of the protocol: messages, ends of time and the wish
// to stop go in, effects come out. It has no clock, stream or goroutine.
//
//	idle ─▶ initializing ─▶ opening ─▶ prompting ─▶ ended
//	              │            │           │          ▲ ▲
//	              └────────────┴───────────│──────────┘ │
//	                                       └─▶ stopping ┘
//
// One request of ours is open at a time; its number is step. What each state makes
// of each input is in testdata/machine.golden.
type machine struct {
	req Request
	opt limits

	state   state
	effects []effect
	out     outcome

	step    int      // the number of our open request, and of the timer that bounds it
	methods []string // the ways to a session that are left, the first one is being tried
	can     promptCapabilities
	http    bool   // the agent takes MCP servers by HTTP
	session string // its id, empty until there is one

	questions map[int]question
	asked     int
	report    reporter
}

// limits are what the machine needs of [Options].
type limits struct {
	mcpURL, mcpName string
	client          [2]string // name, version
	cancelGrace     time.Duration
	eventBytes      int
	lineBytes       int
	canAsk          bool
}

// questionsMax is how many questions of an agent may be open; more are answered
// cancelled.
const questionsMax = 64

func newMachine(req Request, opt limits) *machine {
	m := &machine{req: req, opt: opt, questions: map[int]question{}}
	m.report = reporter{machine: m, tools: map[string]*toolCall{}}
	return m
}

// become panics on an edge that is not in the table: the program is wrong.
func (m *machine) become(to state) {
	if !slices.Contains(machineEdges[m.state], to) {
		panic(fmt.Sprintf("acp: no edge from %v to %v", m.state, to))
	}
	m.state = to
}

// take gives the effects since the last take.
func (m *machine) take() []effect {
	e := m.effects
	m.effects = nil
	return e
}

func (m *machine) write(b []byte) {
	m.effects = append(m.effects, effect{kind: effectWrite, data: b})
}

func (m *machine) reply(b []byte) {
	m.effects = append(m.effects, effect{kind: effectWrite, data: b, reply: true})
}

func (m *machine) emit(b []byte) {
	m.effects = append(m.effects, effect{kind: effectEmit, data: b})
}

// ask sends the next request of ours and bounds its answer.
func (m *machine) ask(method string, params []byte, wait time.Duration) {
	m.step++
	m.write(appendRequest(m.step, method, params))
	m.effects = append(m.effects, effect{kind: effectTimer, wait: wait, number: m.step})
}

func (m *machine) end(out outcome) {
	m.become(stateEnded)
	m.out = out
	m.refuseQuestions()
}

func (m *machine) fail(code, format string, args ...any) {
	m.end(outcome{failure: &Failure{Code: code, Text: fmt.Sprintf(format, args...)}})
}

// start begins the handshake. File and terminal methods are not offered: an agent
// on this machine has its own.
func (m *machine) start() {
	m.become(stateInitializing)
	p := []byte(`{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false},"clientInfo":{"name":`)
	p = appendText(p, m.opt.client[0])
	p = appendText(append(p, `,"version":`...), m.opt.client[1])
	m.ask("initialize", append(p, "}}"...), m.req.InitializeTimeout)
}

// timeout takes the end of a timer. One for a step that is over is stale.
func (m *machine) timeout(step int) {
	if step != m.step {
		return
	}
	switch m.state {
	case stateInitializing:
		m.fail(CodeInitialize, "the agent did not answer initialize within %v; does its command speak the Agent Client Protocol on its standard streams?", m.req.InitializeTimeout)
		m.out.failure.Retryable = true
	case stateOpening:
		m.fail(CodeTimeout, "the agent did not answer %s within %v", m.methods[0], m.req.Timeout)
		m.out.failure.Retryable = true
	case statePrompting:
		m.stop(&Failure{
			Code: CodeTimeout, Retryable: true,
			Text: fmt.Sprintf("the agent did not end its turn within %v; config.timeout gives it more", m.req.Timeout),
		})
	case stateStopping:
		m.end(m.out)
	}
}

// cancel ends the run: a turn by session/cancel, which the agent must answer by
// ending the turn; anything else at once. More of them change nothing.
func (m *machine) cancel() {
	switch m.state {
	case stateInitializing, stateOpening:
		m.end(outcome{})
	case statePrompting:
		m.stop(nil)
	}
}

// stop asks the agent to end its turn and answers its open questions with
// cancelled, as ACP demands. cause is what the run will have failed of, nil for
// a cancel.
func (m *machine) stop(cause *Failure) {
	m.become(stateStopping)
	m.out = outcome{failure: cause}
	m.write(appendNotification("session/cancel", append(appendText([]byte(`{"sessionId":`), m.session), '}')))
	m.refuseQuestions()
	// The answer to the prompt is still awaited: the step stays, its bound changes.
	m.effects = append(m.effects, effect{kind: effectTimer, wait: m.opt.cancelGrace, number: m.step})
}

// gone takes the end of the agent: its process has ended, or its output has. exit
// is nil when it is not known how.
func (m *machine) gone(exit *Exit) {
	switch m.state {
	case stateEnded:
		return
	case stateStopping:
		m.end(m.out)
		return
	}
	doing := map[state]string{stateInitializing: "it answered initialize", stateOpening: "it had opened a session", statePrompting: "its turn did"}[m.state]
	switch {
	case exit == nil:
		m.fail(CodeExited, "the agent closed its standard streams before %s", doing)
	case exit.Signal != 0:
		m.fail(CodeExited, "the agent was ended by %v before %s", *exit, doing)
	default:
		m.fail(CodeExited, "the agent ended with %v before %s", *exit, doing)
	}
	m.out.failure.Exit = exit
	m.out.failure.Retryable = true
}
