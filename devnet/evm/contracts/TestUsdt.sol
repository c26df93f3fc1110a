// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.37;

// A token with Tether's manners: transfer returns nothing, an allowance has to be zero before it is set, a fee can be
// switched on, the sender alone is looked up in the blacklist, and there are no authorisations. Whoever deploys it
// names its issuer, who holds the whole supply.
contract TestUsdt {
    string public name;
    string public symbol;
    uint8 public immutable decimals;
    address public immutable issuer;
    uint256 public immutable totalSupply;
    bool public paused;
    uint256 public basisPointsRate;
    uint256 public maximumFee;
    mapping(address account => bool) public isBlackListed;
    mapping(address account => uint256) public balanceOf;
    mapping(address owner => mapping(address spender => uint256)) public allowance;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event AddedBlackList(address account);
    event RemovedBlackList(address account);
    event Params(uint256 feeBasisPoints, uint256 maxFee);
    event Pause();
    event Unpause();

    modifier onlyIssuer() {
        require(msg.sender == issuer);
        _;
    }
    modifier whenNotPaused() {
        require(!paused);
        _;
    }

    constructor(string memory name_, string memory symbol_, uint8 decimals_, address issuer_, uint256 supply) {
        name = name_;
        symbol = symbol_;
        decimals = decimals_;
        issuer = issuer_;
        totalSupply = supply;
        balanceOf[issuer_] = supply;
        emit Transfer(address(0), issuer_, supply);
    }

    function transfer(address to, uint256 value) external whenNotPaused {
        require(!isBlackListed[msg.sender]);
        _transfer(msg.sender, to, value);
    }

    function transferFrom(address from, address to, uint256 value) external whenNotPaused {
        require(!isBlackListed[from]);
        require(allowance[from][msg.sender] >= value);
        if (allowance[from][msg.sender] != type(uint256).max) allowance[from][msg.sender] -= value;
        _transfer(from, to, value);
    }

    function approve(address spender, uint256 value) external {
        require(value == 0 || allowance[msg.sender][spender] == 0);
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
    }

    function addBlackList(address account) external onlyIssuer {
        isBlackListed[account] = true;
        emit AddedBlackList(account);
    }

    function removeBlackList(address account) external onlyIssuer {
        isBlackListed[account] = false;
        emit RemovedBlackList(account);
    }

    function setParams(uint256 newBasisPoints, uint256 newMaxFee) external onlyIssuer {
        basisPointsRate = newBasisPoints;
        maximumFee = newMaxFee;
        emit Params(newBasisPoints, newMaxFee);
    }

    function pause() external onlyIssuer {
        paused = true;
        emit Pause();
    }

    function unpause() external onlyIssuer {
        paused = false;
        emit Unpause();
    }

    function _transfer(address from, address to, uint256 value) private {
        uint256 fee = (value * basisPointsRate) / 10000;
        if (fee > maximumFee) fee = maximumFee;
        balanceOf[from] -= value;
        balanceOf[to] += value - fee;
        emit Transfer(from, to, value - fee);
        if (fee == 0) return;
        balanceOf[issuer] += fee;
        emit Transfer(from, issuer, fee);
    }
}
