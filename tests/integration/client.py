"""A small grpcio client: one call, one Reply."""
import contextlib
import dataclasses
import threading

import grpc
from tandem.v1 import generation_pb2 as pb
from tandem.v1 import generation_pb2_grpc, session_pb2_grpc
from timing import scaled


@dataclasses.dataclass
class Reply:
    """Everything that one Generate stream said."""
    started: object = None
    text: str = ""
    reasoning: str = ""
    token_ids: list = dataclasses.field(default_factory=list)
    logprobs: list = dataclasses.field(default_factory=list)
    rounds: list = dataclasses.field(default_factory=list)
    deltas: int = 0
    finished: object = None
    failed: object = None

    @property
    def usage(self):
        return (self.finished or self.failed).usage

    def add(self, response):
        """Takes one response; nothing may follow a terminal event."""
        assert self.finished is None and self.failed is None, f"after the terminal event: {response}"
        kind = response.WhichOneof("event")
        if kind == "started":
            assert self.started is None
            self.started = response.started
        elif kind == "delta":
            assert self.started is not None
            self.deltas += 1
            self.text += response.delta.text
            self.reasoning += response.delta.reasoning_text
            self.token_ids += response.delta.token_ids
            self.logprobs += [(l.token_id, l.logprob, tuple((t.token_id, t.logprob) for t in l.top))
                              for l in response.delta.logprobs]
            self.rounds += [(r.tokens, r.drafted, r.accepted) for r in response.delta.rounds]
        elif kind == "finished":
            self.finished = response.finished
        elif kind == "failed":
            self.failed = response.failed
        return self


def request(prompt=None, ids=None, chat=None, session=None, position=None, max_drafts=None, sampling=None, stopping=None,
            top_logprobs=None, **fields):
    """A GenerateRequest; sampling and stopping are dicts of their messages' fields."""
    r = pb.GenerateRequest(**fields)
    if prompt is not None:
        r.prompt = prompt
    if ids is not None:
        r.tokens.ids.extend(ids)
    if chat is not None:
        r.chat.CopyFrom(chat)
    if session is not None:
        r.session.session_id = session
        if position is not None:
            r.session.expected_position = position
    if max_drafts is not None:
        r.speculation.max_drafts = max_drafts
    if sampling is not None:
        r.sampling.CopyFrom(pb.SamplingParameters(**sampling))
    if stopping is not None:
        r.stopping.CopyFrom(pb.StoppingParameters(**stopping))
    if top_logprobs is not None:
        r.output.top_logprobs = top_logprobs
    return r


class Client:
    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, options=[("grpc.max_send_message_length", 64 << 20)])
        self.generation = generation_pb2_grpc.GenerationServiceStub(self.channel)
        self.sessions = session_pb2_grpc.SessionServiceStub(self.channel)

    def close(self):
        self.channel.close()

    def stream(self, *args, timeout=120, **kwargs):
        """The call object, for tests that read, stop or cancel by themselves."""
        message = args[0] if args else request(**kwargs)
        return self.generation.Generate(message, timeout=scaled(timeout))

    @contextlib.contextmanager
    def running(self, *args, timeout=600, **kwargs):
        """A stream that has started and is read in the background; cancelled at the end. For an endless request."""
        call = self.stream(*args, timeout=timeout, **kwargs)
        assert next(call).WhichOneof("event") == "started"

        def read():
            with contextlib.suppress(grpc.RpcError):
                for _ in call:
                    pass
        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield call
        finally:
            call.cancel()
            reader.join()

    def generate(self, *args, timeout=120, on_reply=None, stop_after=None, **kwargs):
        """Reads the whole stream, or cancels it when stop_after tokens are there; on_reply(reply) is called after
        every message."""
        reply = Reply()
        call = self.stream(*args, timeout=timeout, **kwargs)
        for response in call:
            reply.add(response)
            if on_reply:
                on_reply(reply)
            if stop_after is not None and len(reply.token_ids) >= stop_after:
                call.cancel()
                return reply
        assert reply.finished is not None or reply.failed is not None, "the stream ended without a terminal event"
        return reply

    def tokens(self, *args, **kwargs):
        reply = self.generate(*args, **kwargs)
        assert reply.finished is not None, reply.failed
        return reply.token_ids
