"""What somebody asks of a run: carried out in its own order, and answered whatever comes."""

from typing import TYPE_CHECKING

from ...rpc.errors import RpcError
from . import inbox
from .turns import over

if TYPE_CHECKING:
    from ..run import Run


async def carry_out(run: "Run", asked: inbox.Asked) -> None:
    """Do what is asked and answer; whoever asked is told as well when it cannot be done."""
    try:
        await _carry_out(run, asked)
    except RpcError as refusal:
        asked.reply.refuse(refusal)
    except Exception:
        text = f"cannot do that: run {run.fixed.handle} failed, see the daemon's log"
        asked.reply.refuse(RpcError("InternalError", text, retryable=True))
        raise


async def _carry_out(run: "Run", asked: inbox.Asked) -> None:
    match asked:
        case inbox.Answered():
            await run.questions.answer(asked)
        case inbox.CancelAsked():
            await _cancel(run, asked)
        case inbox.PromptAsked():
            await run.turns.prompt(asked)
        case inbox.InterruptAsked():
            await run.turns.interrupt(asked)
        case inbox.CloseAsked():
            await run.turns.close(asked)
        case inbox.QuestionAsked():
            await run.asking.ask(asked)
        case inbox.QuestionAnswered():
            await run.asking.answer(asked)
        case inbox.Lent():
            await run.lending.lend(asked)


async def _cancel(run: "Run", asked: inbox.CancelAsked) -> None:
    state = run.view.state
    # A run on its way out of itself may still have its check to come.
    already = state == "ended" or (state == "stopping" and not run.check.to_come)
    if not already:
        await run.stop("cancelled", asked.by)
    asked.reply.give({"already": already})


def turn_away(run: "Run", message: inbox.Message) -> None:
    """Whoever waits for a reply gets one, also when nobody reads the inbox any more."""
    handle, state = run.fixed.handle, run.view.state
    match message:
        case inbox.CancelAsked() | inbox.CloseAsked():
            message.reply.give({"already": True})
        case inbox.Answered(request=request) | inbox.QuestionAnswered(request=request):
            text = f"cannot answer {request}: run {handle} is over"
            message.reply.refuse(RpcError("Conflict", text))
        case inbox.CheckpointAsked():
            message.reply.give(None)
        case inbox.QuestionAsked():
            message.reply.refuse(over(handle, "ask in", state))
        case inbox.PromptAsked():
            message.reply.refuse(over(handle, "prompt", state))
        case inbox.Lent():
            message.reply.refuse(over(handle, "lend to", state))
        case inbox.InterruptAsked():
            message.reply.refuse(over(handle, "interrupt", state))
