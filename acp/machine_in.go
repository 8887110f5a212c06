package acp

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// line takes one line of the agent's output.
func (m *machine) line(l line) {
	if m.state == stateIdle || m.state == stateEnded {
		return
	}
	if l.text == nil {
		b := strconv.AppendInt([]byte(`{"type":"event.dropped","data":{"bytes":`), int64(l.bytes), 10)
		b = strconv.AppendInt(append(b, `,"limit":`...), int64(m.opt.lineBytes), 10)
		m.emit(append(b, "}}"...))
		return
	}
	msg, err := parseMessage(l.text)
	switch {
	case err != nil:
		m.effects = append(m.effects, effect{kind: effectNoise, data: l.text})
	case msg.method == "" && len(msg.Method) == 0:
		m.answer(&msg)
	case msg.method == "session/update":
		m.update(&msg)
	case msg.method == "session/request_permission" && msg.hasID():
		m.permission(&msg)
	case msg.hasID():
		m.reply(appendRefusal(msg.ID, msg.method))
	}
}

// answer takes the agent's answer to a request of ours. One to any other id is
// ignored: it is late, or no answer to us.
func (m *machine) answer(msg *message) {
	if string(msg.ID) != strconv.Itoa(m.step) {
		return
	}
	failed := msg.failed()
	switch m.state {
	case stateInitializing:
		m.initialized(msg, failed)
	case stateOpening:
		m.opened(msg, failed)
	case statePrompting:
		m.turned(msg, failed)
	case stateStopping:
		m.end(m.out)
	}
}

// initialized takes the agent's capabilities and looks for ways to a session.
func (m *machine) initialized(msg *message, failed *rpcError) {
	if failed != nil {
		m.refused("initialize", failed)
		return
	}
	result := objectOf(msg.Result)
	if result == nil {
		m.fail(CodeResponse, "the agent's answer to initialize is no object")
		return
	}
	if v := result["protocolVersion"]; len(v) > 0 && string(v) != "1" {
		m.fail(CodeProtocolVersion, "the agent speaks version %s of the Agent Client Protocol, this daemon version 1; use an agent of a fitting age", headOf(string(v), 32))
		return
	}
	agent := objectOf(result["agentCapabilities"])
	prompt := objectOf(agent["promptCapabilities"])
	m.can = promptCapabilities{image: truth(prompt["image"]), audio: truth(prompt["audio"]), embedded: truth(prompt["embeddedContext"])}
	m.http = truth(objectOf(agent["mcpCapabilities"])["http"])
	if m.req.StoredSession != "" && m.req.Reuse {
		if truth(objectOf(agent["sessionCapabilities"])["resume"]) {
			m.methods = append(m.methods, "session/resume")
		}
		if truth(agent["loadSession"]) {
			m.methods = append(m.methods, "session/load")
		}
	}
	if m.req.CreateSession {
		m.methods = append(m.methods, "session/new")
	}
	if len(m.methods) == 0 {
		m.fail(CodeSessionMissing, "there is no session that this agent could take up, and config.create_session_if_missing is false")
		return
	}
	m.become(stateOpening)
	m.open()
}

// open tries the next way to a session.
func (m *machine) open() {
	p := appendText([]byte(`{"cwd":`), m.req.SessionDir)
	p = append(p, `,"mcpServers":[`...)
	servers := slices.Clone(m.req.MCPServers)
	if m.req.Assets && m.opt.mcpURL != "" && m.http {
		s := appendText([]byte(`{"type":"http","name":`), m.opt.mcpName)
		s = appendText(append(s, `,"url":`...), m.opt.mcpURL)
		servers = append(servers, append(s, `,"headers":[]}`...))
	}
	for i, s := range servers {
		if i > 0 {
			p = append(p, ',')
		}
		p = append(p, s...)
	}
	p = append(p, ']')
	if m.methods[0] != "session/new" {
		p = appendText(append(p, `,"sessionId":`...), m.req.StoredSession)
	}
	m.ask(m.methods[0], append(p, '}'), m.req.Timeout)
}

// sessionIDMax is how long a session's id may be, in bytes: callers keep it.
const sessionIDMax = 1 << 10

// opened takes the session, tells its id to a caller that does not know it, and
// gives the prompt. An agent that refuses to take up a session has lost it: the
// next way is tried.
func (m *machine) opened(msg *message, failed *rpcError) {
	method := m.methods[0]
	if failed != nil {
		if m.methods = m.methods[1:]; len(m.methods) > 0 {
			m.open()
			return
		}
		m.refused(method, failed)
		return
	}
	result := objectOf(msg.Result)
	m.session = first(result["sessionId"], result["session_id"], result["id"])
	if m.session == "" && method != "session/new" {
		m.session = m.req.StoredSession
	}
	if m.session == "" || len(m.session) > sessionIDMax {
		m.fail(CodeResponse, "the agent's answer to %s names no session, or by a name of more than %d bytes", method, sessionIDMax)
		return
	}
	m.become(statePrompting)
	if method == "session/new" || m.session != m.req.StoredSession {
		b := appendText([]byte(`{"type":"state.updated","data":{"key":"external.acp_session_id","value":`), m.session)
		m.emit(append(b, `,"scope":"conversation"}}`...))
	}
	p := appendText([]byte(`{"sessionId":`), m.session)
	p = append(append(p, `,"prompt":`...), promptBlocks(&m.req, m.can)...)
	m.ask("session/prompt", append(p, '}'), m.req.Timeout)
}

// turned takes the end of the turn.
func (m *machine) turned(msg *message, failed *rpcError) {
	if failed != nil {
		m.refused("session/prompt", failed)
		return
	}
	why := stringOf(objectOf(msg.Result)["stopReason"])
	switch {
	case why == "cancelled":
		m.fail(CodeAgentCancelled, "the agent ended its turn as cancelled, which nobody here had asked for")
	case why == "refusal":
		m.report.completed()
		m.fail(CodeRefused, "the agent refused to go on with this prompt")
	case !m.report.any:
		m.fail(CodeEmptyResponse, "the agent ended its turn without a word")
	default:
		m.report.completed()
		b := []byte(`{"finish_reason":"stop"`)
		if why != "" && why != "end_turn" {
			b = appendText(append(b, `,"stop_reason":`...), headOf(why, 64))
		}
		m.end(outcome{completed: append(b, '}')})
	}
}

// refused ends a run whose request the agent answered with an error.
func (m *machine) refused(method string, e *rpcError) {
	text := headOf(e.Message, 1<<10)
	if e.Code == errAuthRequired && strings.HasPrefix(method, "session/") {
		m.fail(CodeAuthRequired, "the agent wants a login first (%s); log in with its own command on this machine", text)
		return
	}
	m.fail(CodeProtocol, "the agent answered %s with an error: %s (%s)", method, text, strconv.FormatFloat(math.Trunc(e.Code), 'f', -1, 64))
}

// update takes a session/update. What an agent sends while it loads a session is
// the past, and of another session nobody's affair.
func (m *machine) update(msg *message) {
	if m.state != statePrompting && m.state != stateStopping {
		return
	}
	params := objectOf(msg.Params)
	if id := params["sessionId"]; len(id) > 0 && stringOf(id) != m.session {
		return
	}
	raw := params["update"]
	update := objectOf(raw)
	switch stringOf(update["sessionUpdate"]) {
	case "agent_message_chunk":
		m.report.text(contentText(update["content"]), first(update["messageId"], update["message_id"]))
	case "tool_call", "tool_call_update":
		m.report.tool(raw, update)
	}
}

// contentText gives the text of a content block; others have none to show.
func contentText(v jsontext.Value) string {
	content := objectOf(v)
	if stringOf(content["type"]) != "text" {
		return ""
	}
	return stringOf(content["text"])
}

// permissionOption is one way to answer a question.
type permissionOption struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

// permission answers a question by the policy, or leaves it to the embedder.
func (m *machine) permission(msg *message) {
	var p struct {
		Options []permissionOption `json:"options"`
	}
	_ = json.Unmarshal(msg.Params, &p, lenient) // without options there is nothing to pick
	switch {
	case m.state == stateStopping:
		m.decide(msg.ID, "")
	case m.req.Permission == PermissionAsk && m.opt.canAsk && len(m.questions) < questionsMax:
		m.asked++
		m.questions[m.asked] = question{id: msg.ID, options: p.Options}
		params := msg.Params
		if tidy(&params) != nil {
			params = jsontext.Value(`{}`)
		}
		m.effects = append(m.effects, effect{kind: effectAsk, data: params, number: m.asked})
	default:
		m.decide(msg.ID, pick(p.Options, m.req.Permission))
	}
}

// pick gives the id of the option that the policy names, empty when it is not
// among them.
func pick(options []permissionOption, want string) string {
	for _, o := range options {
		if o.ID != "" && (o.Kind == want || o.ID == want || want == "first") {
			return o.ID
		}
	}
	return ""
}

// answered takes the embedder's answer to a question. A late one is ignored; an
// option that was not offered counts as none.
func (m *machine) answered(number int, option string) {
	q, open := m.questions[number]
	if !open {
		return
	}
	delete(m.questions, number)
	if !slices.ContainsFunc(q.options, func(o permissionOption) bool { return o.ID == option }) {
		option = ""
	}
	m.decide(q.id, option)
}

// decide answers a question; no option is the outcome cancelled.
func (m *machine) decide(id jsontext.Value, option string) {
	if option == "" {
		m.reply(appendAnswer(id, []byte(`{"outcome":{"outcome":"cancelled"}}`)))
		return
	}
	b := appendText([]byte(`{"outcome":{"outcome":"selected","optionId":`), option)
	m.reply(appendAnswer(id, append(b, "}}"...)))
}

// refuseQuestions answers all open questions with cancelled, the oldest first.
func (m *machine) refuseQuestions() {
	for n := 1; n <= m.asked && len(m.questions) > 0; n++ {
		m.answered(n, "")
	}
}
